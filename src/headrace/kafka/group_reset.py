"""Moving a consumer group to other offsets: first the plan, then, if it pleases, the deed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import GroupActive, UnknownGroup
from headrace.kafka.groups import committed_offsets, has_members, set_offsets
from headrace.kafka.positions import (
    OffsetRange,
    Partition,
    Position,
    find_offsets,
    offset_ranges,
)
from headrace.kafka.topics import partitions_of


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many offsets forward, or backward if negative, from where the group is."""

    count: int


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """One partition's part of a plan; `before` is None where the group had no offset."""

    partition: Partition
    before: int | None
    after: int
    held: OffsetRange

    @property
    def lag(self) -> int:
        """Offsets the group will have before it."""
        return self.held.latest - self.after


def plan_reset(
    cluster: Cluster, group: str, target: Position | ShiftBy, *, topics: Collection[str] = ()
) -> list[OffsetMove]:
    """What a reset would do, without doing it; every target lies within what the partition holds.

    With `topics`, all their partitions move, and the group need not exist yet. Without, those move
    where the group has committed; UnknownGroup if there are none. A shift leaves out partitions
    without an offset to shift from. GroupActive if the group has members.
    """
    if has_members(cluster, group):
        raise GroupActive(group)
    committed = committed_offsets(cluster, group)
    if not committed and not topics:
        raise UnknownGroup(group)
    partitions = [each for topic in sorted(topics) for each in partitions_of(cluster, topic)]
    partitions = partitions or sorted(committed)
    held = offset_ranges(cluster, partitions)
    if isinstance(target, ShiftBy):
        after = {
            each: held[each].clamp(committed[each] + target.count)
            for each in partitions
            if each in committed
        }
    else:
        after = find_offsets(cluster, partitions, target)
    return [OffsetMove(each, committed.get(each), to, held[each]) for each, to in after.items()]


def apply_reset(cluster: Cluster, group: str, moves: Sequence[OffsetMove]) -> None:
    """Commit the planned offsets for the group; GroupActive if it has got members since."""
    set_offsets(cluster, group, {each.partition: each.after for each in moves})
