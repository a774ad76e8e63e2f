"""How one member comes to have what the target says, without two members having the same.

```
              has something to give up               has given it up
    Stable --------------------------> Unrevoked ---------------------+
      ^                                                               |
      |        somebody else still has what it should get             v
      +------- Unreleased <--------------------------------- the target's epoch
      | it is free                                                    |
      +---------------------------------------------------------------+
                             nothing is missing
```

A member stays in its epoch until it has given up what the target does not give it, and only then
moves to the target's epoch and is given what is free.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from headrace.broker.groups.consumer.partitions import PartitionId, Share, in_order


class Phase(StrEnum):
    """Where a member stands on its way to the target."""

    STABLE = "stable"
    """It has what the target of its epoch gives it."""
    UNREVOKED = "unrevoked"
    """It has been asked to give up partitions and has not said that it did."""
    UNRELEASED = "unreleased"
    """It waits for partitions that another member has not given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a member has, and in which epoch."""

    epoch: int = 0
    previous_epoch: int = 0
    phase: Phase = Phase.STABLE
    assigned: Mapping[PartitionId, int] = field(default_factory=dict)
    """The partitions that the member may work on, with the epochs in which it got them."""
    revoking: Mapping[PartitionId, int] = field(default_factory=dict)
    """The partitions that it has been asked to give up; nobody else may have them yet."""

    @property
    def share(self) -> Share:
        """The partitions that the member may work on."""
        return frozenset(self.assigned)

    def in_epoch(self, epoch: int) -> "Holding":
        """The same partitions in an epoch; the one before is remembered."""
        if epoch == self.epoch:
            return self
        return replace(self, epoch=epoch, previous_epoch=self.epoch)

    def was_assigned_by(self, partition: PartitionId, epoch: int) -> bool:
        """Whether the member had a partition in an epoch, and still has it."""
        got_in = self.assigned.get(partition, self.revoking.get(partition))
        return got_in is not None and got_in <= epoch


def reconcile(
    holding: Holding,
    *,
    target: Share,
    target_epoch: int,
    owned: Share | None,
    is_free: Callable[[PartitionId], bool],
) -> Holding:
    """One step of a member towards its target.

    `owned` is what the member says that it works on, None if it does not say; `is_free` tells
    whether no member has a partition.
    """
    if holding.phase is Phase.STABLE and holding.epoch == target_epoch:
        return holding
    if holding.phase is Phase.UNREVOKED and not _given_up(holding.revoking, owned):
        return holding
    kept = {place: epoch for place, epoch in holding.assigned.items() if place in target}
    excess = {place: epoch for place, epoch in holding.assigned.items() if place not in target}
    if not _given_up(excess, owned):
        return replace(holding, phase=Phase.UNREVOKED, assigned=kept, revoking=excess)
    missing = target - kept.keys()
    # What the member was asked to give up, and now should have after all, is free for it.
    available = {place for place in missing if place in holding.revoking or is_free(place)}
    return replace(
        holding.in_epoch(target_epoch),
        phase=Phase.STABLE if available == missing else Phase.UNRELEASED,
        assigned=kept | dict.fromkeys(in_order(available), target_epoch),
        revoking={},
    )


def _given_up(partitions: Mapping[PartitionId, int], owned: Share | None) -> bool:
    """Whether a member works on none of the partitions; one that does not say might."""
    return not partitions or (owned is not None and owned.isdisjoint(partitions))
