"""How partitions are shared out: each to one member that wants it, evenly, and moving little."""

from collections.abc import Mapping
from itertools import chain
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.consumer.assignors import ASSIGNORS, Claim, Targets, contiguous, uniform
from headrace.broker.groups.consumer.partitions import PartitionId

A, B, C = (UUID(int=number) for number in (1, 2, 3))

counts = st.fixed_dictionaries({A: st.integers(1, 8), B: st.integers(1, 8), C: st.integers(1, 8)})
wishes = st.lists(st.frozensets(st.sampled_from([A, B, C])), max_size=6)


def claims(wishes: list[frozenset[UUID]], previous: Targets | None = None) -> list[Claim]:
    return [
        Claim(f"member-{number}", topics, (previous or {}).get(f"member-{number}", frozenset()))
        for number, topics in enumerate(wishes)
    ]


def readable(wishes: list[frozenset[UUID]], topics: Mapping[UUID, int]) -> set[PartitionId]:
    return {
        PartitionId(topic, number)
        for topic in frozenset().union(*wishes)
        for number in range(topics[topic])
    }


def moved(before: Targets, after: Targets) -> int:
    """How many partitions have another owner than before, among those that had one."""
    owners = {place: member for member, share in before.items() for place in share}
    return sum(
        owners.get(place, member) != member for member, share in after.items() for place in share
    )


@pytest.mark.parametrize("name", ASSIGNORS)
@given(wishes, wishes, counts)
def test_every_wanted_partition_has_one_owner_that_wants_it(name, before, after, topics):
    assignor = ASSIGNORS[name]
    targets = assignor(claims(after, assignor(claims(before), topics)), topics)
    shared_out = list(chain.from_iterable(targets.values()))
    assert len(shared_out) == len(set(shared_out))
    assert set(shared_out) == readable(after, topics)
    for claim in claims(after):
        assert {place.topic_id for place in targets[claim.member_id]} <= claim.topics


@given(st.integers(1, 6), counts)
def test_uniform_shares_differ_by_one_at_most_if_all_want_the_same(size, topics):
    sizes = [len(share) for share in uniform(claims([frozenset(topics)] * size), topics).values()]
    assert max(sizes) - min(sizes) <= 1


@given(wishes, wishes, counts)
def test_uniform_leaves_nobody_with_two_more_than_somebody_who_could_take_one(
    before, after, topics
):
    targets = uniform(claims(after, uniform(claims(before), topics)), topics)
    for claim in claims(after):
        for place in targets[claim.member_id]:
            for other in claims(after):
                if place.topic_id in other.topics:
                    assert len(targets[claim.member_id]) <= len(targets[other.member_id]) + 1


@given(st.integers(1, 6), counts)
def test_a_newcomer_moves_only_its_own_share(size, topics):
    before = uniform(claims([frozenset(topics)] * size), topics)
    after = uniform(claims([frozenset(topics)] * (size + 1), before), topics)
    assert moved(before, after) == len(after[f"member-{size}"])


@given(st.integers(2, 6), counts)
def test_a_departure_moves_only_what_the_departed_had(size, topics):
    before = uniform(claims([frozenset(topics)] * size), topics)
    after = uniform(claims([frozenset(topics)] * (size - 1), before), topics)
    assert moved(before, after) == len(before[f"member-{size - 1}"])


@given(wishes, counts)
def test_sharing_out_again_changes_nothing(wishes, topics):
    for assignor in ASSIGNORS.values():
        once = assignor(claims(wishes), topics)
        assert assignor(claims(wishes, once), topics) == once


@given(st.integers(1, 6), st.integers(1, 10))
def test_range_gives_the_same_numbers_of_topics_that_are_alike(size, count):
    targets = contiguous(claims([frozenset({A, B})] * size), {A: count, B: count})
    for share in targets.values():
        numbers = {topic: sorted(n for t, n in share if t == topic) for topic in (A, B)}
        assert numbers[A] == numbers[B]
        assert numbers[A] == list(range(numbers[A][0], numbers[A][-1] + 1)) if numbers[A] else True


def test_range_follows_the_names_of_static_members():
    wants = frozenset({A})
    members = [
        Claim("z", wants, instance_id="i-1"),
        Claim("a", wants),
        Claim("y", wants, instance_id="i-2"),
    ]
    targets = contiguous(members, {A: 4})
    assert targets == {
        "z": {PartitionId(A, 0), PartitionId(A, 1)},
        "y": {PartitionId(A, 2)},
        "a": {PartitionId(A, 3)},
    }
