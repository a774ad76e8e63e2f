"""How partitions are shared among the members that want them.

Both ways give every partition of every wanted topic to exactly one member that wants the topic.
`uniform` evens out the numbers and moves as little as it can. `range` gives a member the same
numbers in every topic, for joins of topics that are partitioned alike.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final
from uuid import UUID

from headrace.broker.groups.consumer.partitions import PartitionId, Share, in_order


@dataclass(frozen=True, slots=True)
class Claim:
    """What one member wants, and what the previous target gave it."""

    member_id: str
    topics: frozenset[UUID]
    previous: Share = frozenset()
    instance_id: str | None = None


Targets = dict[str, Share]
"""What each member should have, by the members' ids."""

Assignor = Callable[[Sequence[Claim], Mapping[UUID, int]], Targets]
"""Shares out topics, given as numbers of partitions by id, among those who want them."""


def uniform(claims: Sequence[Claim], topics: Mapping[UUID, int]) -> Targets:
    """Shares that differ in size as little as the members' wishes allow.

    If all want the same, sizes differ by at most one. Otherwise nobody has two partitions more than
    somebody who could take one of them.
    """
    if len({claim.topics for claim in claims}) <= 1:
        return _share_evenly(claims, topics)
    return _share_by_wish(claims, topics)


def contiguous(claims: Sequence[Claim], topics: Mapping[UUID, int]) -> Targets:
    """Of each topic a range of neighbours, in the order of the members' names.

    Static members come first, so that their ranges stay what they are when they return with
    another member id.
    """
    order = sorted(
        claims, key=lambda claim: (claim.instance_id is None, claim.instance_id or claim.member_id)
    )
    shares: dict[str, list[PartitionId]] = {claim.member_id: [] for claim in claims}
    for topic_id, count in topics.items():
        readers = [claim.member_id for claim in order if topic_id in claim.topics]
        first = 0
        for index, member_id in enumerate(readers):
            size = count // len(readers) + (index < count % len(readers))
            shares[member_id] += (PartitionId(topic_id, first + each) for each in range(size))
            first += size
    return {member_id: frozenset(share) for member_id, share in shares.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform, "range": contiguous}
"""The assignors by the names that clients know; the first is used where none is asked for."""

DEFAULT_ASSIGNOR: Final = next(iter(ASSIGNORS))
"""The assignor of a group whose members have no preference."""


def _share_evenly(claims: Sequence[Claim], topics: Mapping[UUID, int]) -> Targets:
    wanted = claims[0].topics if claims else frozenset()
    unassigned = dict.fromkeys(_partitions(topics, (each for each in topics if each in wanted)))
    quota, remainder = divmod(len(unassigned), len(claims) or 1)
    shares: dict[str, list[PartitionId]] = {}
    for claim in claims:
        previous = in_order(each for each in claim.previous if each in unassigned)
        size = quota
        if len(previous) > quota and remainder:
            size += 1
            remainder -= 1
        shares[claim.member_id] = previous[:size]
        for each in shares[claim.member_id]:
            del unassigned[each]
    rest = iter(unassigned)
    for share in shares.values():
        size = quota
        if len(share) <= quota and remainder:
            size += 1
            remainder -= 1
        share.extend(next(rest) for _ in range(size - len(share)))
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _share_by_wish(claims: Sequence[Claim], topics: Mapping[UUID, int]) -> Targets:
    readers = {
        topic_id: [claim.member_id for claim in claims if topic_id in claim.topics]
        for topic_id in topics
    }
    shares = _Shares(claims)
    unassigned = dict.fromkeys(_partitions(topics, (each for each in topics if readers[each])))
    for claim in claims:
        for each in in_order(claim.previous):
            if each.topic_id in claim.topics and each in unassigned:
                shares.give(each, claim.member_id)
                del unassigned[each]
    # Topics that few can take come first, while those few have room.
    for each in sorted(unassigned, key=lambda each: len(readers[each.topic_id])):
        shares.give(each, shares.lightest(readers[each.topic_id]))
    while any(shares.even_out(topic_id, readers[topic_id]) for topic_id in topics):
        pass
    return shares.targets()


class _Shares:
    """Shares in the making."""

    def __init__(self, claims: Iterable[Claim]) -> None:
        self._topics: dict[str, dict[UUID, list[PartitionId]]] = {
            claim.member_id: {} for claim in claims
        }
        self._sizes = dict.fromkeys(self._topics, 0)

    def give(self, partition: PartitionId, member_id: str) -> None:
        self._topics[member_id].setdefault(partition.topic_id, []).append(partition)
        self._sizes[member_id] += 1

    def lightest(self, members: Iterable[str]) -> str:
        return min(members, key=self._sizes.__getitem__)

    def even_out(self, topic_id: UUID, readers: Sequence[str]) -> bool:
        """Move partitions of a topic for as long as that makes two shares more alike.

        Every move makes the sum of the squares of the sizes smaller, so that this comes to an end.
        """
        moved = False
        while holders := [each for each in readers if self._topics[each].get(topic_id)]:
            heaviest = max(holders, key=self._sizes.__getitem__)
            lightest = self.lightest(readers)
            if self._sizes[heaviest] - self._sizes[lightest] < 2:
                break
            self.give(self._topics[heaviest][topic_id].pop(), lightest)
            self._sizes[heaviest] -= 1
            moved = True
        return moved

    def targets(self) -> Targets:
        return {
            member_id: frozenset(chain.from_iterable(topics.values()))
            for member_id, topics in self._topics.items()
        }


def _partitions(topics: Mapping[UUID, int], wanted: Iterable[UUID]) -> Iterable[PartitionId]:
    return (PartitionId(topic_id, each) for topic_id in wanted for each in range(topics[topic_id]))
