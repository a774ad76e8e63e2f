"""Short runs under faults: a broker that keeps its promises, and some that are made not to."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.testing.apache_kafka import ApacheKafka
from tests.chaos.checker import Promise, check
from tests.chaos.history import Delivered, Event, Fault, Poll, write_history
from tests.chaos.nemeses import CLOCK, EVERYTHING, HALT, KILL, SLOW_DISK, schedule
from tests.chaos.run import Plan, execute
from tests.chaos.targets import apache_kafka_target, headrace_target


def require_nothing(history: Sequence[Event], plan: Plan, directory: Path) -> None:
    """No promise may be broken, and something must have happened."""
    path = directory / "history.jsonl"
    write_history(path, history)
    anomalies = check(history)
    assert not anomalies, f"{plan}: {[str(each) for each in anomalies[:10]]}; see {path}"
    for kind, least in ((Fault, 1), (Delivered, 100), (Poll, 2)):
        assert sum(isinstance(event, kind) for event in history) >= least


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_promise_is_broken_by_any_fault(tmp_path: Path) -> None:
    plan = Plan("short", 10, EVERYTHING, mean_pause=0.9)
    with headrace_target() as target:
        require_nothing(execute(plan, target), plan, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_process_loses_nothing_even_without_syncs(tmp_path: Path) -> None:
    plan = Plan("killed", 4, (KILL, HALT), transactions=False, mean_pause=0.5)
    with headrace_target(flush="os") as target:
        require_nothing(execute(plan, target), plan, tmp_path)


@pytest.mark.slow
@pytest.mark.apache_kafka
@pytest.mark.timeout(300)
def test_apache_kafka_keeps_the_same_promises(tmp_path: Path) -> None:
    if reason := ApacheKafka.unavailable():
        pytest.skip(reason)
    # Not kill: its coordinator may then leave a transaction open for good, as its own tool says.
    plan = Plan("kafka", 6, (HALT,), mean_pause=1.5, killed_before_the_last_look=False)
    with apache_kafka_target() as target:
        require_nothing(execute(plan, target), plan, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("bug", "faults", "promise"),
    [
        ("acknowledge-before-writing", (KILL,), Promise.LOST_WRITE),
        ("forget-producers", (KILL, SLOW_DISK), Promise.DUPLICATE),
        ("forget-aborts", (CLOCK,), Promise.ABORTED_READ),
        ("serve-unstable-records", (CLOCK,), Promise.DIRTY_READ),
        ("skip-markers", (CLOCK,), Promise.HANGING_TRANSACTION),
    ],
)
def test_a_bug_is_found_and_named(bug: str, faults: tuple[str, ...], promise: Promise) -> None:
    plan = Plan(
        *(bug, 2.5, faults),
        transactions=KILL not in faults,
        mean_pause=0.5,
        transaction_seconds=2,
        grace=3,
        killed_before_the_last_look=KILL in faults,
    )
    with headrace_target(bug=bug) as target:
        anomalies = check(execute(plan, target))
    assert promise in {anomaly.promise for anomaly in anomalies}


def test_a_seed_decides_the_faults() -> None:
    steps = schedule("a", (KILL, CLOCK), 1.0)
    again = schedule("a", (KILL, CLOCK), 1.0)
    other = schedule("b", (KILL, CLOCK), 1.0)
    first = [next(steps) for _ in range(10)]
    assert first == [next(again) for _ in range(10)]
    assert first != [next(other) for _ in range(10)]
