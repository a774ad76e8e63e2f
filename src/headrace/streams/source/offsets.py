"""What Spark writes into its checkpoint for us: how far every partition has been read.

The offsets that end a batch also say everything else that decides what the batch reads, so that a
batch that is run again, on another machine or with other options, is the same batch: where it
begins in partitions that are new in it, and into how many tasks it is cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.kafka import Partition
from headrace.kafka.raw_positions import by_topic
from headrace.streams.source.errors import InvalidOffsets

VERSION: Final = 1
"""Of the JSON object below."""


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """The end of a batch, and the start of the next."""

    offsets: Mapping[Partition, int] = field(default_factory=dict)
    """The first offset of each partition that is not part of the batch."""

    ids: Mapping[str, str] = field(default_factory=dict)
    """Each topic's id, by which one that was created again is noticed."""

    begins: Mapping[Partition, int] = field(default_factory=dict)
    """Where the batch begins in partitions in which it does not go on from the one before.

    In the first batch that is all of them.
    """

    lost: Mapping[Partition, int] = field(default_factory=dict)
    """How many offsets were skipped since the query began, because their records were gone."""

    tasks: int = 1
    """Into how many tasks the batch is cut at most."""

    clock: int | None = None
    """What time it was when the batch was planned, in milliseconds; None if nobody asks for it.

    A batch that is run again has the same time, and one may differ from the one before in nothing
    but this: a tick, which lets those who wait for events notice that none come.
    """

    def to_json(self) -> dict[str, Any]:
        """As it is stored; equal offsets are equal texts."""
        stored: dict[str, Any] = {"version": VERSION, "topics": _nested(self.offsets)}
        if self.ids:
            stored["ids"] = dict(sorted(self.ids.items()))
        if self.begins:
            stored["begins"] = _nested(self.begins)
        if self.lost:
            stored["lost"] = _nested(self.lost)
        if self.tasks != 1:
            stored["tasks"] = self.tasks
        if self.clock is not None:
            stored["clock"] = self.clock
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "SourceOffsets":
        """What was stored; `InvalidOffsets` if another version did."""
        if stored.get("version") != VERSION:
            raise InvalidOffsets(
                f"The checkpoint's offsets are of version {stored.get('version')}, and this is "
                f"Headrace's source of version {VERSION}. Use the Headrace that wrote the "
                "checkpoint, or start with a new one."
            )
        return cls(
            offsets=_flat(stored["topics"]),
            ids=stored.get("ids", {}),
            begins=_flat(stored.get("begins", {})),
            lost=_flat(stored.get("lost", {})),
            tasks=stored.get("tasks", 1),
            clock=stored.get("clock"),
        )


def _nested(flat: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    return {
        topic: {str(number): flat[Partition(topic, number)] for number in numbers}
        for topic, numbers in by_topic(flat).items()
    }


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    return {
        Partition(topic, int(number)): offset
        for topic, offsets in nested.items()
        for number, offset in offsets.items()
    }
