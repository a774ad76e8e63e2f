"""A lease that one process at a time holds, kept by any Kafka cluster.

    with leased(KafkaSettings(), "nightly-report", holder="process 7 on mill", lost=stop): ...

A lease is a consumer group without topics, and its leader is the holder. A member that joins later
does not become the leader while the one before is alive, and learns from it who it is. When the
holder falls silent, the coordinator expels it after `SESSION_SECONDS` and the next one leads. So
whoever asks waits for an answer and not for a clock: a heartbeat's time if there is a holder, and
at most the session's if it was killed. docs/decisions/0020 compares that with other ways.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from headrace.kafka.connection import Connection, GroupCoordinator, refused
from headrace.kafka.errors import ClusterError
from headrace.kafka.messages import request
from headrace.settings import KafkaSettings

SESSION_SECONDS: Final = 10.0
"""How long a holder may be silent; Kafka allows no less than 6 unless it is told to."""

_HEARTBEATS_PER_SESSION: Final = 5
_JOIN_SECONDS: Final = 60.0
"""How long the answer to one join may take; a cluster may wait for others before it answers."""

_PATIENCE_SECONDS: Final = 120.0
"""How long others may keep us from learning who leads."""

_SILENCE_SECONDS: Final = 10.0
"""How long one request is tried while nobody answers."""

_PAUSE_SECONDS: Final = 0.05
_LEAVE_SECONDS: Final = 2.0
_PROTOCOL: Final = "headrace-lease"

_ILLEGAL_GENERATION: Final = 22
_UNKNOWN_MEMBER: Final = 25
_REBALANCE: Final = 27
_MEMBER_ID_REQUIRED: Final = 79
_JOIN_AGAIN: Final = frozenset({_ILLEGAL_GENERATION, _UNKNOWN_MEMBER, _REBALANCE})

logger = logging.getLogger(__name__)


class LeaseHeld(ClusterError):
    """Somebody else holds the lease."""

    def __init__(self, name: str, holder: str) -> None:
        super().__init__(f"The lease {name} is held by {holder}.")
        self.holder = holder


@contextmanager
def leased(
    settings: KafkaSettings, name: str, *, holder: str, lost: Callable[[LeaseHeld], None]
) -> Iterator[None]:
    """Hold a lease; `LeaseHeld` if somebody does already.

    Args:
        settings: The cluster that keeps the lease.
        name: What it is called, as a consumer group.
        holder: What others are told who ask for it meanwhile.
        lost: Called from another thread if somebody has taken over, which takes a silence of this
            process; a cluster that is away for a while changes nothing.
    """
    lease = _Lease(Connection(settings), name, holder, lost)
    try:
        lease.take()
        yield
    finally:
        lease.give_back()


@dataclass(frozen=True, slots=True)
class _Membership:
    """Our place in the group."""

    member: str = ""
    generation: int = -1


class _Lease:
    def __init__(
        self, connection: Connection, name: str, holder: str, lost: Callable[[LeaseHeld], None]
    ) -> None:
        # A connection of its own: a broker answers a join when it is done, and nothing before.
        self._connection = connection
        self._name = name
        self._holder = holder
        self._lost = lost
        self._membership = _Membership()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease {name}", daemon=True)

    def take(self) -> None:
        self._join()
        self._thread.start()

    def give_back(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._leave()
        self._connection.close()

    def _keep(self) -> None:
        silent = False
        while not self._over.wait(SESSION_SECONDS / _HEARTBEATS_PER_SESSION):
            try:
                if self._heartbeat() in _JOIN_AGAIN:
                    self._join()
                silent = False
            except LeaseHeld as taken:
                self._lost(taken)
                return
            except ClusterError as error:
                if not silent:
                    logger.warning("the lease %s cannot be renewed now: %s", self._name, error)
                silent = True

    def _join(self) -> None:
        """Become the leader, or raise `LeaseHeld` with what the leader says."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._over.is_set():
            code, leads, said = self._join_once()
            if code == 0 and leads:
                return
            if code == 0:
                self._leave()
                raise LeaseHeld(self._name, said.decode() or "somebody")
            if time.monotonic() > deadline:
                raise refused(f"take the lease {self._name}", code)
            self._over.wait(_PAUSE_SECONDS)

    def _join_once(self) -> tuple[int, bool, bytes]:
        """An error code that passes, or whether we lead, and what the leader says."""
        session = timedelta(seconds=SESSION_SECONDS)
        joined = self._ask(
            "join_group",
            5,
            session_timeout=session,
            rebalance_timeout=session,
            member_id=self._membership.member,
            group_instance_id=None,
            protocol_type=_PROTOCOL,
            protocols=[{"name": _PROTOCOL, "metadata": self._holder.encode()}],
        )
        code = int(joined.error_code)
        if code in (_MEMBER_ID_REQUIRED, _UNKNOWN_MEMBER):
            # A member that is not known any more begins anew; brokers tell it its old id.
            known = joined.member_id if code == _MEMBER_ID_REQUIRED else ""
            self._membership = _Membership(known)
            return code, False, b""
        if code and code not in _JOIN_AGAIN:
            raise refused(f"take the lease {self._name}", code)
        self._membership = _Membership(joined.member_id, joined.generation_id)
        if code:
            return code, False, b""
        leads = joined.leader == joined.member_id
        told = [
            {"member_id": each.member_id, "assignment": self._holder.encode()}
            for each in joined.members
        ]
        synced = self._ask("sync_group", 3, **self._who(), assignments=told if leads else [])
        return int(synced.error_code), leads, synced.assignment

    def _heartbeat(self) -> int:
        return int(self._ask("heartbeat", 3, **self._who()).error_code)

    def _leave(self) -> None:
        if self._membership.member:
            with suppress(ClusterError):
                member = self._membership.member
                self._ask("leave_group", 1, patience=_LEAVE_SECONDS, member_id=member)
            self._membership = _Membership()

    def _who(self) -> dict[str, Any]:
        return {
            "member_id": self._membership.member,
            "generation_id": self._membership.generation,
            "group_instance_id": None,
        }

    def _ask(
        self, api: str, version: int, *, patience: float = _SILENCE_SECONDS, **content: Any
    ) -> Any:
        return self._connection.ask(
            GroupCoordinator(self._name),
            request(api, version, group_id=self._name, **content),
            code_of=lambda answer: answer.error_code,
            seconds=_JOIN_SECONDS,
            patience=patience,
        )
