"""Cutting a batch into tasks."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka import Partition
from headrace.streams.source.splits import RECORDS_PER_TASK, Range, split

A, B = Partition("a", 0), Partition("b", 0)

partitions = st.builds(Partition, st.sampled_from("abc"), st.integers(0, 4))
ranges = st.dictionaries(
    partitions, st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=12
)


def test_one_large_partition_keeps_every_core_busy() -> None:
    half = RECORDS_PER_TASK
    assert split({A: 10}, {A: 10 + 2 * half}, 2) == [
        (Range(A, 10, 10 + half),),
        (Range(A, 10 + half, 10 + 2 * half),),
    ]


def test_many_small_partitions_are_one_task() -> None:
    assert split({A: 0, B: 5}, {B: 7, A: 3}, 8) == [(Range(A, 0, 3), Range(B, 5, 7))]


def test_nothing_new_is_no_task() -> None:
    assert split({A: 5, B: 7}, {A: 5, B: 6}, 4) == []


def test_a_partition_without_a_start_is_left_out() -> None:
    assert split({}, {A: 5}, 4) == []


@given(ranges, st.integers(1, 64))
def test_tasks_hold_each_record_once_in_order_and_are_of_one_size(
    bounds: dict[Partition, tuple[int, int]], tasks: int
) -> None:
    starts = {each: start for each, (start, _) in bounds.items()}
    ends = {each: end for each, (_, end) in bounds.items()}
    planned = split(starts, ends, tasks)
    read = [each for task in planned for each in task]
    for partition in bounds:
        position = starts[partition]
        for each in read:
            if each.partition == partition:
                assert each.start == position < each.end
                position = each.end
        assert position == max(ends[partition], starts[partition])
    sizes = [sum(each.end - each.start for each in task) for task in planned]
    assert len(planned) <= tasks
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert split(starts, dict(reversed(ends.items())), tasks) == planned
