"""A request that waits for the rest of its group."""

import asyncio
from typing import Generic, TypeVar

from kio.schema.errors import ErrorCode

from headrace.broker.groups.errors import GroupError

Answer = TypeVar("Answer")
"""What the request is answered with."""


class Parked(Generic[Answer]):
    """The place where one request of a member waits for its answer.

    A client that has gone away cancels its future. A newcomer then loses its place (`joining`);
    another member keeps it: to the group it waits until its generation is complete, and its session
    then expires unless it comes back.
    """

    __slots__ = ("_reply",)

    def __init__(self) -> None:
        self._reply: asyncio.Future[Answer] | None = None

    @property
    def waiting(self) -> bool:
        """Whether a request waits here."""
        return self._reply is not None

    def holds(self, reply: "asyncio.Future[Answer]") -> bool:
        """Whether it is this request that waits here."""
        return self._reply is reply

    def wait(self, reply: "asyncio.Future[Answer]") -> None:
        """Let a request wait; one that waits already is a lost attempt and is sent away."""
        self.refuse(
            GroupError(ErrorCode.rebalance_in_progress, "superseded by the member's next request")
        )
        self._reply = reply

    def answer(self, answer: Answer) -> bool:
        """Answer the request that waits, if there is one."""
        reply, self._reply = self._reply, None
        if reply is None:
            return False
        if not reply.done():
            reply.set_result(answer)
        return True

    def refuse(self, error: GroupError) -> bool:
        """Send the request that waits away, if there is one."""
        reply, self._reply = self._reply, None
        if reply is None:
            return False
        if not reply.done():
            reply.set_exception(error)
            # Whoever waited may be cancelled before it sees the error, which asyncio would report
            # as an error that nobody looked at.
            reply.exception()
        return True
