"""What goes back to a client: bytes, or bytes with pieces of log files between them.

A fetch reply names the file ranges it consists of and does not hold them: they are read in small
pieces as the client takes them in, so a client that does not read costs one piece of memory.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.errors import HeadraceError

PIECE = 64 * 1024
"""How much of a file is read at a time."""


class FileEnded(HeadraceError):
    """A log file has become shorter than it was: somebody else has changed it."""


class FileRange(Protocol):
    """A range of a log file that stays readable for as long as it is referred to."""

    @property
    def length(self) -> int:
        """How many bytes it has."""
        ...

    def read(self, start: int, count: int) -> bytes:
        """`count` bytes from `start`, which counts from the range's beginning."""
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


class Outbox:
    """The bytes on their way to one client, in order, written only as fast as it reads."""

    __slots__ = ("_blocked", "_parts", "_position", "_write")

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._parts: deque[bytes | FileRange] = deque()
        self._position = 0
        self._blocked = False

    @property
    def blocked(self) -> bool:
        """Whether the client has more to read before anything else can be written."""
        return self._blocked

    def send(self, reply: Reply) -> None:
        """Write a reply after everything that was sent before it."""
        if type(reply) is bytes:
            if not self._parts:
                self._write(reply)
                return
            self._parts.append(reply)
        else:
            self._parts.extend(reply)  # type: ignore[arg-type]
        self._pump()

    def block(self) -> None:
        """The transport's buffer is full."""
        self._blocked = True

    def unblock(self) -> None:
        """The transport's buffer has drained."""
        self._blocked = False
        self._pump()

    def clear(self) -> None:
        """The client is gone: let go of the files."""
        self._parts.clear()
        self._position = 0

    def _pump(self) -> None:
        parts = self._parts
        while parts and not self._blocked:
            part = parts[0]
            if isinstance(part, bytes):
                parts.popleft()
                self._write(part)
                continue
            piece = part.read(self._position, min(PIECE, part.length - self._position))
            if not piece:
                raise FileEnded(f"a log file ends {part.length - self._position} bytes too early")
            self._position += len(piece)
            if self._position >= part.length:
                parts.popleft()
                self._position = 0
            self._write(piece)
