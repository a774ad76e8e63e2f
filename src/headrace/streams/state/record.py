"""What is stored of a bucket beside its rows: one small record, the truth about what is valid.

A bucket's rows are in chunks, each a blob under a number. The record lists the runs of every table
and the chunks of every run; a chunk that it does not name does not exist. It also names the last
states that the bucket had, so that a copy in a worker's memory can tell whether it is one of them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

from headrace.streams.state.errors import StateMismatch

FORMAT: Final = 1
"""Of the record and of the chunks, with their order."""

_REMEMBERED: Final = 32
"""How far behind a copy may be and still be brought up to date."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Where a run is."""

    chunks: tuple[int, ...]
    tombstones: int | None
    """The number of the chunk with the identities of deleted rows."""

    rows: int
    deletes: int
    bytes: int

    @property
    def every_chunk(self) -> tuple[int, ...]:
        """The numbers of all its chunks."""
        return self.chunks if self.tombstones is None else (*self.chunks, self.tombstones)


@dataclass(frozen=True, slots=True)
class Shape:
    """The operator and the tables that a bucket was written by, comparable and readable."""

    operator: str
    version: int
    tables: Mapping[str, Mapping[str, Any]]
    """Of every table its `key`, its `row`, its `columns` with their types, and its `schema`."""


@dataclass(frozen=True, slots=True)
class Record:
    """One version of a bucket."""

    shape: Shape
    version: int = 0
    runs: Mapping[str, tuple[StoredRun, ...]] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    """How many rows of each table hold."""

    next_chunk: int = 0
    states: tuple[str, ...] = ("",)
    """Digests of the last versions, this one's last: each of all changes up to it."""

    clock: str = ""
    """What the watermark remembers of its sources, as it wrote it."""

    watermark: int | None = None

    @property
    def size(self) -> int:
        """What its chunks take."""
        return sum(each.bytes for runs in self.runs.values() for each in runs)

    def state_at(self, version: int) -> str | None:
        """The digest of an earlier version, or None if that is too long ago or yet to come."""
        behind = self.version - version
        return self.states[-1 - behind] if 0 <= behind < len(self.states) else None

    def after(self, changes: bytes, **changed: Any) -> "Record":
        """The next version, which these changes led to."""
        digest = blake2b(self.states[-1].encode() + changes, digest_size=8).hexdigest()
        states = (*self.states, digest)[-_REMEMBERED:]
        return replace(self, version=self.version + 1, states=states, **changed)

    def to_bytes(self) -> bytes:
        """As it is stored."""
        stored = {
            "format": FORMAT,
            "operator": self.shape.operator,
            "operator_version": self.shape.version,
            "tables": self.shape.tables,
            "version": self.version,
            "runs": {
                name: [
                    [each.chunks, each.tombstones, each.rows, each.deletes, each.bytes]
                    for each in runs
                ]
                for name, runs in self.runs.items()
            },
            "rows": self.rows,
            "next_chunk": self.next_chunk,
            "states": self.states,
            "clock": self.clock,
            "watermark": self.watermark,
        }
        return json.dumps(stored, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> "Record":
        """What was stored; StateMismatch if this version of Headrace cannot read it."""
        read: dict[str, Any] = json.loads(stored)
        if read["format"] != FORMAT:
            raise StateMismatch(
                f"The state of operator {read['operator']} has the format {read['format']}, and "
                f"this version of Headrace reads {FORMAT}. Run the version that wrote it, or "
                "begin anew with another checkpoint."
            )
        return cls(
            Shape(read["operator"], read["operator_version"], read["tables"]),
            read["version"],
            {
                name: tuple(StoredRun(tuple(each[0]), *each[1:]) for each in runs)
                for name, runs in read["runs"].items()
            },
            read["rows"],
            read["next_chunk"],
            tuple(read["states"]),
            read["clock"],
            read["watermark"],
        )
