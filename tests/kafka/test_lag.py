"""What lag is: in records and in time, with markers, open transactions, gaps and lost records."""

import pytest

from headrace.clock import ManualClock
from headrace.kafka import Isolation, LagMeter, Partition, PartitionLag, UnknownGroup, isolation_by
from tests.kafka.lag_cluster import ORDERS, ImaginaryCluster, ImaginaryLog

NOW = 1_700_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def seconds_apart(*offsets: int, first: int = NOW - 60_000) -> dict[int, int]:
    """Records at these offsets, the first a minute old and each a second younger."""
    return {offset: first + number * 1000 for number, offset in enumerate(offsets)}


def measured(
    cluster: ImaginaryCluster, clock: ManualClock, *uncommitted: str, time: bool = True
) -> dict[str, PartitionLag]:
    """The lag of each group in the one partition where it has committed."""
    meter = LagMeter(cluster, isolation_of=isolation_by(uncommitted), time=time, clock=clock)
    return {each.name: each.partitions[0] for each in meter.measure().groups}


def test_lag_is_what_comes_from_the_committed_offset_on(clock: ManualClock):
    cluster = ImaginaryCluster(
        {ORDERS: ImaginaryLog(seconds_apart(*range(10)), end=10)}, {"billing": {ORDERS: 4}}
    )
    assert measured(cluster, clock)["billing"] == PartitionLag(ORDERS, 4, 0, 10, 6, 56_000)


def test_a_group_that_has_read_everything_has_no_lag_and_costs_no_reading(clock: ManualClock):
    cluster = ImaginaryCluster(
        {ORDERS: ImaginaryLog(seconds_apart(0, 1), end=2)}, {"billing": {ORDERS: 2}}
    )
    assert measured(cluster, clock)["billing"] == PartitionLag(ORDERS, 2, 0, 2, 0, 0)
    assert cluster.reads == []


def test_a_marker_at_the_end_is_no_lag(clock: ManualClock):
    cluster = ImaginaryCluster(
        {ORDERS: ImaginaryLog(seconds_apart(0, 1), end=3)}, {"billing": {ORDERS: 2}}
    )
    lag = measured(cluster, clock)["billing"]
    assert (lag.records, lag.time_ms) == (0, 0)


def test_without_reading_a_marker_cannot_be_told_from_a_record(clock: ManualClock):
    cluster = ImaginaryCluster(
        {ORDERS: ImaginaryLog(seconds_apart(0, 1), end=3)}, {"billing": {ORDERS: 2}}
    )
    lag = measured(cluster, clock, time=False)["billing"]
    assert (lag.records, lag.time_ms, cluster.reads) == (1, None, [])


def test_an_open_transaction_makes_only_those_late_who_read_it(clock: ManualClock):
    log = ImaginaryLog(seconds_apart(*range(10)), end=10, stable=4)
    cluster = ImaginaryCluster({ORDERS: log}, {"billing": {ORDERS: 4}, "audit": {ORDERS: 4}})
    lags = measured(cluster, clock, "aud*")
    assert (lags["billing"].records, lags["billing"].latest) == (0, 4)
    assert (lags["audit"].records, lags["audit"].latest) == (6, 10)


def test_offsets_that_hold_nothing_do_not_count_before_the_first_record(clock: ManualClock):
    cluster = ImaginaryCluster(
        {ORDERS: ImaginaryLog(seconds_apart(0, 90, 91), end=92)}, {"billing": {ORDERS: 1}}
    )
    lag = measured(cluster, clock)["billing"]
    assert (lag.records, lag.time_ms) == (2, 59_000)


def test_what_was_removed_unread_is_lost_and_no_longer_lag(clock: ManualClock):
    cluster = ImaginaryCluster(
        {ORDERS: ImaginaryLog(seconds_apart(7, 8, 9), start=7, end=10)}, {"billing": {ORDERS: 2}}
    )
    lag = measured(cluster, clock)["billing"]
    assert (lag.records, lag.lost, lag.time_ms) == (3, 5, 60_000)


def test_an_offset_beyond_the_end_is_no_negative_lag(clock: ManualClock):
    cluster = ImaginaryCluster({ORDERS: ImaginaryLog({}, end=3)}, {"billing": {ORDERS: 9}})
    lag = measured(cluster, clock)["billing"]
    assert (lag.records, lag.time_ms, lag.lost) == (0, 0, 0)


def test_a_record_from_the_future_is_not_of_negative_age(clock: ManualClock):
    cluster = ImaginaryCluster(
        {ORDERS: ImaginaryLog({0: NOW + 5000}, end=1)}, {"billing": {ORDERS: 0}}
    )
    assert measured(cluster, clock)["billing"].time_ms == 0


def test_a_partition_that_cannot_be_read_has_a_lag_of_unknown_age(clock: ManualClock):
    cluster = ImaginaryCluster(
        {ORDERS: ImaginaryLog(seconds_apart(0, 1), end=2)},
        {"billing": {ORDERS: 0}},
        unreadable={ORDERS},
    )
    lag = measured(cluster, clock)["billing"]
    assert (lag.records, lag.time_ms) == (2, None)


class TestReading:
    def test_a_group_that_stands_still_is_read_for_once(self, clock: ManualClock):
        log = ImaginaryLog(seconds_apart(0, 1), end=2)
        cluster = ImaginaryCluster({ORDERS: log}, {"billing": {ORDERS: 0}})
        meter = LagMeter(cluster, clock=clock)
        meter.measure()
        clock.advance(10)
        log.records[2], log.end = NOW, 3
        (group,) = meter.measure().groups
        assert (group.records, group.time_ms) == (3, 70_000)
        assert cluster.reads == [(ORDERS, 0, Isolation.READ_COMMITTED)]

    def test_after_a_while_the_record_is_looked_for_again(self, clock: ManualClock):
        log = ImaginaryLog(seconds_apart(0, 1), end=2)
        cluster = ImaginaryCluster({ORDERS: log}, {"billing": {ORDERS: 0}})
        meter = LagMeter(cluster, clock=clock)
        meter.measure()
        del log.records[0]
        clock.advance(301)
        (group,) = meter.measure().groups
        assert (group.records, len(cluster.reads)) == (1, 2)

    def test_groups_at_one_place_share_a_reading_and_others_get_their_own(self, clock: ManualClock):
        other = Partition("orders", 1)
        logs = {each: ImaginaryLog(seconds_apart(*range(5)), end=5) for each in (ORDERS, other)}
        offsets = {
            "a": {ORDERS: 1, other: 1},
            "b": {ORDERS: 1},
            "c": {ORDERS: 3},
        }
        cluster = ImaginaryCluster(logs, offsets)
        sample = LagMeter(cluster, clock=clock).measure()
        assert [each.records for each in sample.groups] == [8, 4, 2]
        assert [each.time_ms for each in sample.groups] == [59_000, 59_000, 57_000]
        assert sorted((each, offset) for each, offset, _ in cluster.reads) == [
            (ORDERS, 1),
            (ORDERS, 3),
            (other, 1),
        ]

    def test_what_was_found_empty_is_not_searched_twice(self, clock: ManualClock):
        log = ImaginaryLog({}, end=5)
        cluster = ImaginaryCluster({ORDERS: log}, {"billing": {ORDERS: 0}})
        meter = LagMeter(cluster, clock=clock)
        meter.measure()
        meter.measure()
        log.records[6], log.end = NOW, 7
        (group,) = meter.measure().groups
        assert group.records == 1
        assert [offset for _, offset, _ in cluster.reads] == [0, 5]

    def test_a_topic_made_anew_is_not_believed_to_be_the_old_one(self, clock: ManualClock):
        cluster = ImaginaryCluster(
            {ORDERS: ImaginaryLog(seconds_apart(*range(9)), end=9)}, {"billing": {ORDERS: 0}}
        )
        meter = LagMeter(cluster, clock=clock)
        meter.measure()
        cluster.logs[ORDERS] = ImaginaryLog({0: NOW}, end=1)
        (group,) = meter.measure().groups
        assert group.time_ms == 0


def test_only_the_groups_asked_for_are_measured(clock: ManualClock):
    cluster = ImaginaryCluster({}, {"a": {}, "b": {}})
    meter = LagMeter(cluster, clock=clock)
    assert [each.name for each in meter.measure(["b"]).groups] == ["b"]
    with pytest.raises(UnknownGroup):
        meter.measure(["c"])
