"""A second group where another one was: the same application, started again to write elsewhere."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import ClusterError, GroupActive, UnknownGroup
from headrace.kafka.group_reset import ShiftBy
from headrace.kafka.groups import committed_offsets, has_members, set_offsets
from headrace.kafka.positions import OffsetRange, Partition, Position, find_offsets, offset_ranges

AS_IT_IS = ShiftBy(0)
"""Exactly where the source is."""


class CannotCopy(ClusterError):
    """A group cannot be copied like that; the message says what would do."""


@dataclass(frozen=True, slots=True)
class OffsetCopy:
    """One partition's part of a copy: where the source is, and where the target will begin."""

    partition: Partition
    source: int
    replaced: int | None
    """What the target had committed before."""
    after: int
    held: OffsetRange

    @property
    def lag(self) -> int:
        """Offsets the target will have before it."""
        return self.held.latest - self.after


def plan_copy(
    cluster: Cluster,
    source: str,
    target: str,
    position: Position | ShiftBy = AS_IT_IS,
    *,
    topics: Collection[str] = (),
    force: bool = False,
) -> list[OffsetCopy]:
    """What a copy would do, without doing it, in every partition where the source has committed.

    By default the target begins where the source is. Every offset lies within what the
    partition holds. The source may be running; the target must not be (GroupActive), and may have
    no offsets unless `force` allows to replace them (CannotCopy). UnknownGroup if the source has
    no offsets; CannotCopy if it has none in one of the `topics`.
    """
    if source == target:
        raise CannotCopy(f"{source} cannot be copied to itself; `headrace groups reset` moves it.")
    committed = committed_offsets(cluster, source)
    if not committed:
        raise UnknownGroup(source)
    for topic in topics:
        if all(each.topic != topic for each in committed):
            known = ", ".join(sorted({each.topic for each in committed}))
            raise CannotCopy(f"{source} has no offsets in {topic}; it has some in {known}.")
    if has_members(cluster, target):
        raise GroupActive(target)
    existing = committed_offsets(cluster, target)
    if existing and not force:
        raise CannotCopy(
            f"The group {target} has offsets already. Choose another name, or replace them with "
            "--force."
        )
    partitions = sorted(each for each in committed if not topics or each.topic in topics)
    held = offset_ranges(cluster, partitions)
    if isinstance(position, ShiftBy):
        after = {each: held[each].clamp(committed[each] + position.count) for each in partitions}
    else:
        after = find_offsets(cluster, partitions, position)
    return [
        OffsetCopy(each, committed[each], existing.get(each), after[each], held[each])
        for each in partitions
    ]


def apply_copy(cluster: Cluster, target: str, copies: Sequence[OffsetCopy]) -> None:
    """Commit the planned offsets for the target; GroupActive if it has got members since."""
    set_offsets(cluster, target, {each.partition: each.after for each in copies})
