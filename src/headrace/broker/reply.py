"""What goes back to a client: bytes, or bytes with pieces of log files between them.

A fetch reply names the file ranges it consists of and does not hold them: `outbox` sends them as
the client takes them in.
"""

from collections.abc import Callable, Sequence
from typing import Protocol


class FileRange(Protocol):
    """A range of a log file that stays readable for as long as it is referred to."""

    @property
    def length(self) -> int:
        """How many bytes it has."""
        ...

    def read(self, start: int, count: int) -> bytes:
        """`count` bytes from `start`, which counts from the range's beginning."""
        ...

    def send(self, socket: int, start: int, count: int) -> int:
        """Send some of these bytes to a socket without blocking on it, and say how many."""
        ...


Reply = bytes | Sequence["bytes | FileRange"]
"""A whole response frame, in the order in which it is sent."""


class Pending:
    """A reply that will be known later; whoever waits for it is called once."""

    __slots__ = ("_abandoned", "_then", "reply")

    def __init__(self) -> None:
        self.reply: Reply | None = None
        self._abandoned: Callable[[], object] | None = None
        self._then: Callable[[], None] | None = None

    def resolve(self, reply: Reply) -> None:
        """Make the reply known."""
        self.reply = reply
        # Whoever is to be told of an abandonment refers to this object, in a cycle that would keep
        # the files of the reply open until the garbage collector comes by.
        self._abandoned = None
        then, self._then = self._then, None
        if then is not None:
            then()

    def then(self, callback: Callable[[], None]) -> None:
        """Call back once the reply is known; it must not be known yet."""
        self._then = callback

    def on_abandon(self, callback: Callable[[], object]) -> None:
        """Call back if nobody waits for the reply any more."""
        self._abandoned = callback

    def abandon(self) -> None:
        """Nobody waits any more: the client is gone."""
        self._then = None
        abandoned, self._abandoned = self._abandoned, None
        if abandoned is not None:
            abandoned()
