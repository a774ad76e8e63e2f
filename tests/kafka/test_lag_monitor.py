"""The monitor's thread, what it does when the cluster is away, and the pace it leads to."""

import logging
import queue
import time

import pytest

from headrace.clock import ManualClock
from headrace.kafka import ClusterSilent, GroupLag, GroupSummary, LagMeter, LagSample, Partition
from headrace.kafka.lag_monitor import LagMonitor
from headrace.kafka.lag_rates import LagRates, Pace
from tests.kafka.lag_cluster import ORDERS, ImaginaryCluster, ImaginaryLog

NOW = 1_700_000_000_000


class MoodyCluster(ImaginaryCluster):
    """A cluster that can be away."""

    away = False
    asked = 0

    def groups(self) -> list[GroupSummary]:
        self.asked += 1
        if self.away:
            raise ClusterSilent("nowhere:1", "connection refused")
        return super().groups()


@pytest.fixture
def cluster() -> MoodyCluster:
    return MoodyCluster(
        {ORDERS: ImaginaryLog({0: NOW, 1: NOW}, end=2)}, {"billing": {ORDERS: 0}, "audit": {}}
    )


def test_one_step_measures_and_tells_everybody_in_order(cluster: MoodyCluster):
    told: list[object] = []
    monitor = LagMonitor(
        LagMeter(cluster), groups=["billing"], listeners=[told.append, lambda _: told.append("b")]
    )
    sample = monitor.step()
    assert told == [sample, "b"]
    assert [each.name for each in sample.groups] == ["billing"]


def test_the_thread_goes_on_until_it_is_stopped(cluster: MoodyCluster):
    samples: queue.SimpleQueue[LagSample] = queue.SimpleQueue()
    with LagMonitor(LagMeter(cluster), interval_ms=1, listeners=[samples.put]) as monitor:
        for _ in range(3):
            samples.get(timeout=10)
    monitor.stop()
    while not samples.empty():
        samples.get()
    time.sleep(0.01)
    assert samples.empty()


def test_stopping_does_not_wait_for_the_interval(cluster: MoodyCluster):
    samples: queue.SimpleQueue[LagSample] = queue.SimpleQueue()
    began = time.monotonic()
    with LagMonitor(LagMeter(cluster), interval_ms=3600_000, listeners=[samples.put]):
        samples.get(timeout=10)
    assert time.monotonic() - began < 10


def test_an_outage_is_logged_once_and_survived(
    cluster: MoodyCluster, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "headrace.lag")
    samples: queue.SimpleQueue[LagSample] = queue.SimpleQueue()
    cluster.away = True
    with LagMonitor(LagMeter(cluster), interval_ms=1, listeners=[samples.put]) as monitor:
        deadline = time.monotonic() + 10
        while cluster.asked < 3:
            assert time.monotonic() < deadline
        assert "connection refused" in str(monitor.failure)
        cluster.away = False
        samples.get(timeout=10)
        samples.get(timeout=10)
    assert monitor.failure is None
    assert [message.split(":")[0] for message in caplog.messages] == [
        "lag is not measured",
        "lag is measured again",
    ]


def test_a_defect_is_shown_with_its_traceback_and_does_not_end_the_thread(
    cluster: MoodyCluster, caplog: pytest.LogCaptureFixture
):
    samples: queue.SimpleQueue[LagSample] = queue.SimpleQueue()

    def stumble(sample: LagSample) -> None:
        raise ZeroDivisionError

    with LagMonitor(LagMeter(cluster), interval_ms=1, listeners=[samples.put, stumble]):
        samples.get(timeout=10)
        samples.get(timeout=10)
    assert "ZeroDivisionError" in caplog.text


class TestPace:
    def sample(self, cluster: ImaginaryCluster, clock: ManualClock) -> LagSample:
        return LagMeter(cluster, time=False, clock=clock).measure()

    def test_it_takes_two_samples(self, cluster: MoodyCluster):
        rates = LagRates()
        rates.add(self.sample(cluster, ManualClock(NOW)))
        assert rates.of("billing") is None
        assert rates.of("nobody") is None

    def test_it_is_what_was_committed_and_written_meanwhile(self, cluster: MoodyCluster):
        clock, rates = ManualClock(NOW), LagRates()
        for _ in range(3):
            rates.add(self.sample(cluster, clock))
            clock.advance(5)
            cluster.offsets["billing"][ORDERS] += 50
            cluster.logs[ORDERS].end += 20
        assert rates.of("billing") == Pace(consumed=10.0, produced=4.0)

    def test_only_the_last_minute_counts(self, cluster: MoodyCluster):
        clock, rates = ManualClock(NOW), LagRates()
        cluster.logs[ORDERS].end = 100_000
        for number in range(30):
            rates.add(self.sample(cluster, clock))
            clock.advance(10)
            cluster.offsets["billing"][ORDERS] += 1000 if number < 15 else 10
        pace = rates.of("billing")
        assert pace is not None
        assert pace.consumed == 1.0

    def test_a_partition_that_is_new_does_not_count_as_a_jump(self, cluster: MoodyCluster):
        clock, rates = ManualClock(NOW), LagRates()
        rates.add(self.sample(cluster, clock))
        cluster.logs[Partition("orders", 1)] = ImaginaryLog({}, end=9000)
        cluster.offsets["billing"][Partition("orders", 1)] = 5000
        clock.advance(1)
        rates.add(self.sample(cluster, clock))
        assert rates.of("billing") == Pace(0.0, 0.0)

    @pytest.mark.parametrize(
        ("consumed", "produced", "records", "seconds"),
        [(10, 4, 60, 10), (10, 10, 60, None), (0, 4, 1, None), (0, 4, 0, 0), (5, 0, 0, 0)],
    )
    def test_catching_up_takes_the_difference(
        self, consumed: float, produced: float, records: int, seconds: float | None
    ):
        assert Pace(consumed, produced).seconds_to_catch_up(records) == seconds


def test_a_group_without_any_measured_time_has_none():
    from headrace.kafka import Isolation

    assert GroupLag("g", "empty", "classic", Isolation.READ_COMMITTED, ()).time_ms is None
