"""Alarms: when they are raised, when they end, and what does not disturb them."""

from headrace.kafka import GroupLag, Isolation, LagSample, Partition, PartitionLag
from headrace.kafka.lag_alerts import Alert, Alerts, AlertState
from headrace.settings import AlertRule

FIRING, RECOVERED = AlertState.FIRING, AlertState.RECOVERED
START = 1_700_000_000_000


class Course:
    """Feeds an alert one measurement after the other, ten seconds apart."""

    def __init__(self, *rules: AlertRule) -> None:
        self.alerts = Alerts(rules)
        self.at_ms = START - 10_000

    def goes(
        self, records: int | None, time_ms: int | None = 0, *, group: str = "billing"
    ) -> list[Alert]:
        """The next measurement; without `records`, the group is gone."""
        lag = PartitionLag(Partition("orders", 0), 0, 0, records, records, time_ms)
        measured = GroupLag(group, "stable", "classic", Isolation.READ_COMMITTED, (lag,))
        self.at_ms += 10_000
        return self.alerts.judge(LagSample(self.at_ms, () if records is None else (measured,)))

    def states(self, *records: int | None) -> list[list[AlertState]]:
        return [[each.state for each in self.goes(count)] for count in records]


def test_it_fires_once_and_recovers_once():
    course = Course(AlertRule(max_records=100))
    assert course.states(50, 101, 500, 200, 80, 0) == [[], [FIRING], [], [], [RECOVERED], []]


def test_an_alarm_says_what_it_is_about():
    (alert,) = Course(AlertRule(max_records=100, max_time_ms=9000)).goes(101, 1234)
    assert alert.as_json() == {
        "state": "firing",
        "rule": 1,
        "group": "billing",
        "topic": "orders",
        "records": 101,
        "time_ms": 1234,
        "max_records": 100,
        "max_time_ms": 9000,
        "at_ms": START,
        "since_ms": START,
    }
    assert str(alert) == "firing: group billing is 101 records, 1.2 s behind in orders (rule 1)"


def test_wavering_around_the_threshold_raises_one_alarm():
    course = Course(AlertRule(max_records=100))
    assert course.states(101, 99, 101, 81, 101, 80) == [[FIRING], [], [], [], [], [RECOVERED]]


def test_a_threshold_must_be_exceeded_for_as_long_as_the_rule_says():
    course = Course(AlertRule(max_records=100, for_ms=20_000))
    assert course.states(101, 101, 50, 101, 101) == [[], [], [], [], []]
    (alert,) = course.goes(101)
    assert (alert.state, alert.since_ms) == (FIRING, START + 30_000)
    assert course.states(0, 0, 101, 0, 0, 0) == [[], [], [], [], [], [RECOVERED]]


def test_time_is_a_threshold_of_its_own():
    course = Course(AlertRule(max_time_ms=60_000))
    assert course.goes(1_000_000, 60_000) == []
    assert [each.state for each in course.goes(1, 60_001)] == [FIRING]
    assert [each.state for each in course.goes(1, 48_000)] == [RECOVERED]


def test_an_unknown_time_neither_raises_nor_ends_an_alarm():
    course = Course(AlertRule(max_time_ms=60_000))
    assert course.goes(5, None) == []
    assert len(course.goes(5, 61_000)) == 1
    assert course.goes(5, None) == []
    assert [each.state for each in course.goes(0, 0)] == [RECOVERED]


def test_all_thresholds_must_be_kept_for_an_alarm_to_end():
    course = Course(AlertRule(max_records=10, max_time_ms=1000))
    assert len(course.goes(11, 0)) == 1
    assert course.goes(0, 999) == []
    assert [each.state for each in course.goes(0, 800)] == [RECOVERED]


def test_a_group_that_is_gone_has_no_lag():
    course = Course(AlertRule(max_records=10))
    assert course.states(11, None, None) == [[FIRING], [RECOVERED], []]


def test_only_matching_groups_and_topics_are_judged():
    course = Course(
        AlertRule(group="bill*", max_records=10),
        AlertRule(topic="payments", max_records=0),
        AlertRule(group="?illing", topic="ord*", max_records=20),
    )
    assert course.goes(100, group="audit") == []
    assert [each.rule.max_records for each in course.goes(100)] == [10, 20]
    assert course.alerts.firing == {("billing", "orders")}


def test_records_of_all_partitions_count_together_and_the_worst_time_alone():
    partitions = tuple(
        PartitionLag(Partition("orders", number), 0, 0, 6, 6, 1000 * number) for number in range(3)
    )
    group = GroupLag("billing", "stable", "classic", Isolation.READ_COMMITTED, partitions)
    (alert,) = Alerts([AlertRule(max_records=17)]).judge(LagSample(START, (group,)))
    assert (alert.records, alert.time_ms) == (18, 2000)


def test_a_clock_that_jumps_back_starts_the_wait_again():
    course = Course(AlertRule(max_records=10, for_ms=20_000))
    course.goes(11)
    course.at_ms -= 3600_000
    assert course.states(11, 11, 11) == [[], [], [FIRING]]
