"""Erasing records from a topic of a Headrace broker, and following how far it has come."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import ClusterError, ClusterUnreachable, UnknownTopic
from headrace.kafka.private import NotHeadrace, OperationRefused, ask

POLL_SECONDS: Final = 1.0
"""How long a question about a job waits for news."""


class ExcisionRefused(ClusterError):
    """The broker does not erase the records, or could not finish; it says why."""


class ExcisionLost(ClusterError):
    """The broker stopped answering in the middle of a job."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(
            f"The broker at {bootstrap} has gone in the middle of the excision. No segment is half "
            "done: start the broker and run the same command again, which does the rest."
        )


@dataclass(frozen=True, slots=True)
class ExcisionProgress:
    """How far a job has come."""

    phase: str
    """`waiting`, `looking`, `rewriting` or `checking`."""

    done: int
    total: int
    """Bytes of this phase."""

    receipt: dict[str, Any] | None
    """What was done; None while it is not."""


def start_excision(
    cluster: Cluster,
    topic: str,
    *,
    keys: Sequence[bytes] = (),
    headers: Sequence[tuple[str, bytes]] = (),
    partitions: Sequence[int] | None = None,
    dry_run: bool = False,
    patience_ms: int | None = None,
) -> str:
    """Have every record erased that has one of the keys or headers, and return the job's name.

    The job goes on in the broker whether or not anybody follows it. `patience_ms` is how long open
    transactions may take to end. Raises `UnknownTopic`, `ExcisionRefused`, or what `ask` raises.
    """
    parameters: dict[str, Any] = {
        "topic": topic,
        "keys": [b64encode(key).decode() for key in keys],
        "headers": [[name, b64encode(value).decode()] for name, value in headers],
        "partitions": partitions,
        "dry_run": dry_run,
    }
    if patience_ms is not None:
        parameters["patience_ms"] = patience_ms
    try:
        answer = ask(cluster, "excision.start", parameters, seconds=cluster.timeout)
    except OperationRefused as refusal:
        if refusal.kind == "UnknownTopic":
            raise UnknownTopic(topic) from refusal
        raise ExcisionRefused(f"{topic} is left as it is: {refusal}.") from refusal
    return str(answer["job"])


def follow_excision(cluster: Cluster, job: str) -> Iterator[ExcisionProgress]:
    """Yield how far a job has come whenever there is news; the last one has the receipt.

    Raises `ExcisionRefused` if it ends without one, and `ExcisionLost` if the broker goes away.
    """
    parameters = {"job": job, "wait_ms": round(1000 * POLL_SECONDS)}
    while True:
        try:
            status = ask(cluster, "excision.poll", parameters, seconds=cluster.timeout)
        except OperationRefused as refusal:
            raise ExcisionRefused(f"{refusal}.") from refusal
        except (ClusterUnreachable, NotHeadrace) as error:
            # It was a Headrace broker, and answered, when the job began.
            raise ExcisionLost(cluster.bootstrap) from error
        if status["state"] == "refused":
            raise ExcisionRefused(f"The excision has ended early: {status['reason']}.")
        yield ExcisionProgress(status["phase"], status["done"], status["total"], status["receipt"])
        if status["state"] == "done":
            return
