"""The history of lag: what is found again, how it is thinned out, and what it refuses."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kafka import GroupLag, Isolation, LagSample, Partition, PartitionLag
from headrace.kafka import lag_history as module
from headrace.kafka.lag_history import HistoryUnusable, LagHistory, LagPoint, LagRow

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 20_000 * DAY


def sample(at_ms: int, records: int, time_ms: int | None = 0, *, group: str = "g") -> LagSample:
    partitions = tuple(
        PartitionLag(Partition("orders", number), 5, 0, 5 + records, records, time_ms)
        for number in range(2)
    )
    return LagSample(
        at_ms, (GroupLag(group, "stable", "classic", Isolation.READ_COMMITTED, partitions),)
    )


@pytest.fixture
def history(tmp_path: Path) -> Iterator[LagHistory]:
    with LagHistory.open(tmp_path / "state", "c1", retention_ms=30 * DAY) as opened:
        yield opened


def test_samples_are_found_again_by_the_next_process(history: LagHistory, tmp_path: Path):
    history.add(sample(START, 3, 700))
    history.close()
    with LagHistory.open(tmp_path / "state", "c1", retention_ms=DAY) as again:
        assert again.rows("g", partition=1) == [LagRow(START, "g", "orders", 1, 3, 700, 0, 5, 8)]
        assert again.rows("g", topic="other") == again.rows("other") == []


def test_clusters_do_not_share_their_history(history: LagHistory, tmp_path: Path):
    history.add(sample(START, 3))
    with LagHistory.open(tmp_path / "state", "c2", retention_ms=DAY) as other:
        assert other.rows("g") == []


def test_two_processes_may_write_at_once(history: LagHistory, tmp_path: Path):
    with LagHistory.open(tmp_path / "state", "c1", retention_ms=DAY) as other:
        for number in range(10):
            (history, other)[number % 2].add(sample(START + number * SECOND, number))
    assert [row.records for row in history.rows("g", partition=0)] == list(range(10))


def test_rows_can_be_asked_for_by_time(history: LagHistory):
    for number in range(5):
        history.add(sample(START + number * SECOND, number))
    found = history.rows("g", partition=0, since_ms=START + SECOND, until_ms=START + 3 * SECOND)
    assert [row.records for row in found] == [1, 2]


def test_old_samples_become_coarse_but_keep_their_worst(history: LagHistory):
    for number in range(3 * 60):
        history.add(sample(START + number * 20 * SECOND, 500 if number == 10 else 1, number))
    history.thin(START + 3 * HOUR)
    minutes = history.rows("g", partition=0)
    assert len(minutes) == 60
    assert max(row.records or 0 for row in minutes) == 500
    assert (minutes[3].at_ms, minutes[3].records) == (START + 3 * MINUTE, 500)
    history.thin(START + 3 * DAY)
    (hour,) = history.rows("g", partition=0)
    assert (hour.at_ms, hour.records, hour.time_ms) == (START, 500, 179)


def test_what_is_older_than_the_retention_goes(history: LagHistory):
    history.add(sample(START, 1, group="gone"))
    history.add(sample(START + 31 * DAY, 1))
    history.thin(START + 31 * DAY)
    assert history.rows("gone") == []
    assert len(history.rows("g")) == 2


def test_the_number_of_rows_is_bounded(history: LagHistory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_ROWS", 20)
    for number in range(30):
        history.add(sample(START + number * SECOND, number))
    history.thin(START + 30 * SECOND)
    kept = history.rows("g")
    assert len(kept) <= 20
    assert kept[-1].records == 29


def test_points_add_partitions_up_and_take_the_worst_of_each_span(history: LagHistory):
    for number in range(60):
        history.add(sample(START + number * SECOND, number, 10 * number))
    points = history.points("g", since_ms=START, until_ms=START + MINUTE, count=3)
    assert points == [
        LagPoint(START, 2 * 19, 190),
        LagPoint(START + 20 * SECOND, 2 * 39, 390),
        LagPoint(START + 40 * SECOND, 2 * 59, 590),
    ]


def test_spans_without_a_sample_are_missing(history: LagHistory):
    history.add(sample(START + 50 * SECOND, 4, None))
    points = history.points("g", since_ms=START, until_ms=START + MINUTE, count=6)
    assert points == [LagPoint(START + 50 * SECOND, 8, 0)]


def test_a_file_of_another_version_is_refused(history: LagHistory, tmp_path: Path):
    history.close()
    with sqlite3.connect(tmp_path / "state" / "lag-c1.sqlite3") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(HistoryUnusable, match=r"another version of Headrace \(format 99"):
        LagHistory.open(tmp_path / "state", "c1", retention_ms=DAY)


def test_what_is_no_history_is_refused_with_a_remedy(tmp_path: Path):
    (tmp_path / "lag-c1.sqlite3").write_text("groceries: milk, eggs, bread" * 100)
    with pytest.raises(HistoryUnusable, match=r"Name another directory with \[lag\] state"):
        LagHistory.open(tmp_path, "c1", retention_ms=DAY)
    with pytest.raises(HistoryUnusable, match="--no-history"):
        LagHistory.open(tmp_path / "lag-c1.sqlite3", "c1", retention_ms=DAY)


def test_a_failing_disk_is_reported_as_such(history: LagHistory):
    history.close()
    with pytest.raises(HistoryUnusable, match="cannot be written"):
        history.add(sample(START, 1))
    with pytest.raises(HistoryUnusable, match="cannot be read"):
        history.rows("g")
