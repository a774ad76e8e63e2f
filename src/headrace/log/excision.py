"""Excision in words: which records are to go, what was found, and what was done about it.

Everything here passes between the broker and the process that does the work, as JSON.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from headrace.log.errors import LogError


class ExcisionRefused(LogError):
    """An excision cannot be done, or not now; nothing was changed unless the message says so."""


class OffsetRange(NamedTuple):
    """Consecutive offsets."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records that are to go: those with one of the keys, or with one of the headers."""

    keys: Sequence[bytes] = ()
    headers: Sequence[tuple[str, bytes]] = ()

    def as_json(self) -> dict[str, Any]:
        """In a form that JSON can hold."""
        return {
            "keys": [b64encode(key).decode() for key in self.keys],
            "headers": [[name, b64encode(value).decode()] for name, value in self.headers],
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Undo `as_json`; raises `ExcisionRefused` if it cannot have come from there."""
        try:
            return cls(
                tuple(b64decode(key, validate=True) for key in value["keys"]),
                tuple(
                    (str(name), b64decode(content, validate=True))
                    for name, content in value["headers"]
                ),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ExcisionRefused(f"keys and headers cannot be understood: {error!r}") from error


class SegmentFile(NamedTuple):
    """A segment as another process finds it."""

    path: str
    base_offset: int
    size: int
    index_interval: int


class Findings(NamedTuple):
    """The records of a segment that are to go."""

    looked_at: int
    """How many records the segment has."""

    records: int
    """How many of them are to go."""

    bytes: int
    """Bytes of their keys and values."""

    offsets: Sequence[OffsetRange]
    """Where they are."""

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        """Undo what JSON does to it."""
        looked_at, records, size, offsets = value
        return cls(looked_at, records, size, [OffsetRange(*each) for each in offsets])


class FileChange(NamedTuple):
    """A segment that was written anew without them."""

    log_file: str
    """The name under which the new batches wait."""

    index_file: str
    """The name under which their index waits."""

    size: int
    """Bytes of the new batches."""

    max_timestamp: int
    """The newest timestamp of the records that are left, or -1."""

    sha256_before: str
    sha256_after: str
    findings: Findings

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        """Undo what JSON does to it."""
        change = cls(*value)
        return change._replace(findings=Findings.from_json(value[-1]))


class Sighting(NamedTuple):
    """A file in which something was seen that is to be gone, or that merely looks like it."""

    file: str
    """Relative to the data directory."""

    records: int
    """Records with such a key or header."""

    occurrences: int
    """How often the bytes of a removed key or value are in it, as far as they can be searched."""


class CheckReport(NamedTuple):
    """What a look at every file of the data directory has shown."""

    files: int
    bytes: int
    strings: int
    """Different keys and values that were searched for, byte by byte."""

    left: Sequence[Sighting]
    """Where something is left that should be gone."""

    unreadable: Sequence[str]
    """Files of the topic that cannot be decoded, so that nobody can tell what they hold."""

    later: int
    """Records of the topic that were written after the excision began, and are still there."""

    elsewhere: Sequence[Sighting]
    """Other files with the same keys or the same bytes; they belong to somebody else."""

    alike: Sequence[Sighting]
    """Segments of the topic whose records are all to stay, and hold the same bytes: in a longer
    key that begins like a removed one, for instance, or in an equal value."""

    @property
    def passed(self) -> bool:
        """Whether nothing is left."""
        return not self.left and not self.unreadable

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        """Undo what JSON does to it."""
        files, size, strings, left, unreadable, later, elsewhere, alike = value
        return cls(
            files,
            size,
            strings,
            [Sighting(*each) for each in left],
            unreadable,
            later,
            [Sighting(*each) for each in elsewhere],
            [Sighting(*each) for each in alike],
        )
