"""Decoded buckets that a worker keeps from batch to batch, and whether they may be used.

A copy counts only if the bucket was once exactly in its state. If the stored state has moved on,
only what is new is read. If the copy is of a batch that failed, or of another checkpoint, it is
thrown away: the record knows nothing of its state.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.streams.state.record import Record, Shape, StoredRun
from headrace.streams.state.runs import Run
from headrace.streams.state.spilling import Room

_ROUNDS: Final = 20
"""A copy that was not used while all others were that many times is of a bucket that another worker
has now, or of a query that has ended."""


class Found(StrEnum):
    """What a worker had of a bucket when a batch came."""

    NOTHING = "nothing"
    CURRENT = "current"
    BEHIND = "behind"
    INVALID = "invalid"


@dataclass(slots=True)
class Copy:
    """A bucket's decoded runs at one version."""

    version: int = 0
    state: str = ""
    runs: dict[str, dict[StoredRun, Run]] = field(default_factory=dict)
    """Of every table its runs, the oldest first, by where they are stored."""

    shape: Shape | None = None
    """Of the operator that the rows were decoded for."""

    def fits(self, record: Record) -> Found:
        """What the copy is worth beside the record of what is stored."""
        if record.state_at(self.version) != self.state:
            return Found.INVALID
        return Found.CURRENT if self.version == record.version else Found.BEHIND


class Copies:
    """The copies of one worker; the ones that were not used for the longest time go first."""

    def __init__(self, memory: int, files: int) -> None:
        """Take what may be kept in memory, and how much besides in mapped files; in bytes."""
        self.room = Room(memory)
        self._files = files
        self._copies: OrderedDict[Hashable, tuple[int, Copy]] = OrderedDict()
        self._uses = 0

    def take(self, key: Hashable) -> Copy | None:
        """Remove a copy, to work with it: if that fails, there is none to be wrong."""
        _, copy = self._copies.pop(key, (0, None))
        return copy

    def put(self, key: Hashable, copy: Copy) -> None:
        """Keep a copy for the next batch; drop those of which a worker seems to be rid."""
        self._uses += 1
        self._copies[key] = (self._uses, copy)
        while len(self._copies) > 1:
            oldest, _ = next(iter(self._copies.values()))
            unused = self._uses - oldest > _ROUNDS * len(self._copies)
            if not unused and self.room.spilled <= self._files:
                break
            self._copies.popitem(last=False)


_of_this_process: dict[int, Copies] = {}


def copies(memory: int) -> Copies:
    """The copies of this process, which is where a worker keeps things between batches."""
    if memory not in _of_this_process:
        _of_this_process[memory] = Copies(memory, 64 * memory)
    return _of_this_process[memory]
