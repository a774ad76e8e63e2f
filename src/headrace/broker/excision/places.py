"""What an excision does to each place where records are, in two steps: look, then rewrite."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headrace.broker.excision.process import ExcisionProcess
from headrace.log.excision import FileChange, Findings


class Rewritten(NamedTuple):
    """A file or an object that was replaced by one without the records."""

    before: str
    """Its name: relative to the data directory, or its key in the archive."""

    after: str
    """The name of what took its place."""

    size_before: int
    change: FileChange
    archived: bool = False
    """Whether it is an object in the archive."""


class Place(Protocol):
    """A segment on the local disk or in the archive."""

    @property
    def name(self) -> str:
        """The file, relative to the data directory, or the object's key in the archive."""
        ...

    @property
    def partition(self) -> int:
        """The partition it belongs to."""
        ...

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        ...

    @property
    def room_needed(self) -> int:
        """Bytes that rewriting it takes up for a while on the local disk."""
        ...

    async def find(self, process: ExcisionProcess) -> Findings | None:
        """What is to go; None if the place itself has gone, by retention."""
        ...

    async def rewrite(self, process: ExcisionProcess) -> Rewritten | None:
        """Replace it by one without the records; None if it has gone by itself meanwhile."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A place, and what is to go of it."""

    place: Place
    findings: Findings
