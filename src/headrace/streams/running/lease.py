"""One run of a flow at a time, where its checkpoints are in no directory that could be locked."""

import hashlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from headrace.kafka.lease import SESSION_SECONDS, LeaseHeld, leased
from headrace.settings import KafkaSettings
from headrace.streams.running.errors import FlowAlreadyRunning

RUN_GROUPS: Final = "__headrace_run."
"""What the groups begin with that say which flows are running."""


@contextmanager
def only_run(
    kafka: KafkaSettings, flow: str, checkpoints: str, overtaken: Callable[[str], None]
) -> Iterator[None]:
    """Hold a flow's checkpoints, by a lease of the flow's own cluster.

    FlowAlreadyRunning names who has it. After a kill the next run waits for the lease's session to
    end, and then starts. `overtaken` is called with a message if another run has begun because this
    one was silent for that long.
    """
    holder = f"process {os.getpid()} on {socket.gethostname()}"

    def lost(taken: LeaseHeld) -> None:
        overtaken(
            f"Flow {flow} was taken over by {taken.holder}: this process had been silent for more "
            f"than {SESSION_SECONDS:.0f} s. Nothing is lost, the other run goes on from the same "
            f"checkpoints ({checkpoints})."
        )

    lease = leased(kafka, group_of(flow, checkpoints), holder=holder, lost=lost)
    with ExitStack() as resources:
        try:
            resources.enter_context(lease)
        except LeaseHeld as held:
            raise FlowAlreadyRunning(
                f"Flow {flow} is running already, in {held.holder} (checkpoints in {checkpoints}). "
                "Stop that one first, or give this one another name or another checkpoint "
                "directory."
            ) from None
        yield


def group_of(flow: str, checkpoints: str) -> str:
    """The lease of a flow's checkpoints; the same flow may run elsewhere with others.

    >>> group_of("shop", "s3://bucket/flows/shop")
    '__headrace_run.shop.5d633542'
    """
    return f"{RUN_GROUPS}{flow}.{hashlib.sha256(checkpoints.encode()).hexdigest()[:8]}"
