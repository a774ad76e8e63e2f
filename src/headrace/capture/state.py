"""What a capture remembers: how far it has got, stored with what it wrote."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

import orjson

from headrace.capture.changes import Position, Table
from headrace.capture.errors import CaptureError
from headrace.capture.snapshot.tasks import SnapshotTask

VERSION: Final = 1
"""Of what is stored; a newer one is refused."""


@dataclass(slots=True)
class KnownTable:
    """What was last told of a table's shape."""

    native: int
    """The number that the database knows it by."""

    fingerprint: str
    version: int = 1
    """Counts its shapes."""


@dataclass(slots=True)
class CaptureState:
    """Everything that the next run of a capture has to know."""

    name: str
    prefix: str = ""
    position: Position | None = None
    """Where to go on; None before the first time, and after the place was lost."""

    tables: dict[str, KnownTable] = field(default_factory=dict)
    tasks: dict[str, SnapshotTask] = field(default_factory=dict)
    """Snapshots by id, finished ones too: that is how a table is known to have been read."""

    recent: list[str] = field(default_factory=list)
    """The transactions that were told last, while tables are read."""

    status: dict[str, Any] = field(default_factory=dict)
    """What people who ask are told; the capture itself reads nothing from it."""

    def open_tasks(self) -> list[SnapshotTask]:
        """What is still to be read."""
        return [task for task in self.tasks.values() if not task.done]

    def to_bytes(self) -> bytes:
        """As it is stored."""
        return orjson.dumps(
            {
                "version": VERSION,
                "name": self.name,
                "prefix": self.prefix,
                "position": self.position,
                "tables": {
                    name: [each.native, each.fingerprint, each.version]
                    for name, each in self.tables.items()
                },
                "tasks": [task.to_json() for task in self.tasks.values()],
                "recent": self.recent,
                "status": self.status,
            }
        )

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """As it was stored; CaptureError if a newer version of Headrace did."""
        found: Mapping[str, Any] = orjson.loads(stored)
        if found["version"] > VERSION:
            raise CaptureError(
                f"The capture {found['name']} was last run by a newer version of Headrace, which "
                f"keeps its state in form {found['version']}; this one knows forms up to "
                f"{VERSION}. Update Headrace."
            )
        tasks = [SnapshotTask.from_json(each) for each in found["tasks"]]
        return cls(
            found["name"],
            found["prefix"],
            found["position"],
            {name: KnownTable(*each) for name, each in found["tables"].items()},
            {task.id: task for task in tasks},
            found["recent"],
            dict(found["status"]),
        )


def fingerprint(table: Table) -> str:
    """A short text that differs for tables whose rows look different."""
    described = repr((table.columns, table.key)).encode()
    return hashlib.blake2b(described, digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A wish to read a table, or some of it, again."""

    id: str
    table: str
    low: tuple[str, ...] | None = None
    high: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Wishes:
    """What people want of a capture, whether it runs or not."""

    paused: bool = False
    snapshots: tuple[SnapshotRequest, ...] = ()

    def to_bytes(self) -> bytes:
        """As it is stored."""
        snapshots = [[each.id, each.table, each.low, each.high] for each in self.snapshots]
        return orjson.dumps({"version": VERSION, "paused": self.paused, "snapshots": snapshots})

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """As it was stored."""
        found = orjson.loads(stored)
        return cls(
            found["paused"],
            tuple(
                SnapshotRequest(id_, table, low and tuple(low), high and tuple(high))
                for id_, table, low, high in found["snapshots"]
            ),
        )
