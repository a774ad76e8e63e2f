"""Positions: how people name them, and what clusters find."""

from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from headrace.kafka import (
    AtOffset,
    AtTime,
    BeforeEnd,
    Cluster,
    Earliest,
    Latest,
    OffsetRange,
    Partition,
    Position,
    UnknownTopic,
    find_offsets,
    offset_ranges,
    parse_position,
)

NOW = 1_700_000_000_000
NOON = round(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Earliest()),
        (" Latest ", Latest()),
        ("0", AtOffset(0)),
        ("42", AtOffset(42)),
        ("-1", BeforeEnd(1)),
        ("-10m", AtTime(NOW - 600_000)),
        ("-1h 30m", AtTime(NOW - 5_400_000)),
        ("2026-03-01T12:00Z", AtTime(NOON)),
        ("2026-03-01T13:00:00.250+01:00", AtTime(NOON + 250)),
    ],
)
def test_positions_are_read_as_people_write_them(text: str, position: Position):
    assert parse_position(text, now_ms=NOW) == position


def test_a_time_without_zone_is_local():
    local = datetime(2026, 3, 1, 12).astimezone()
    assert parse_position("2026-03-01 12:00", now_ms=NOW) == AtTime(round(local.timestamp() * 1000))


@pytest.mark.parametrize("text", ["", "soon", "10m", "-", "-10 parsecs", "2026-13-01", "1.5"])
def test_anything_else_is_refused_with_examples(text: str):
    with pytest.raises(ValueError, match="is no position; write earliest, latest, an offset"):
        parse_position(text, now_ms=NOW)


@pytest.mark.parametrize(("wanted", "clamped"), [(3, 5), (5, 5), (7, 7), (9, 9), (12, 9)])
def test_offsets_are_kept_within_what_is_there(wanted: int, clamped: int):
    assert OffsetRange(5, 9).clamp(wanted) == clamped


@pytest.mark.partitions(2)
def test_each_partition_finds_its_own_offset(connection: Cluster, topic: str):
    producer = Producer({"bootstrap.servers": connection.bootstrap})
    for number in range(6):
        producer.produce(topic, b"x", partition=0, timestamp=NOW + number)
    producer.produce(topic, b"x", partition=1, timestamp=NOW)
    assert producer.flush(20) == 0
    first, second = Partition(topic, 0), Partition(topic, 1)

    def found(position: Position) -> tuple[int, int]:
        offsets = find_offsets(connection, [first, second], position)
        return offsets[first], offsets[second]

    assert offset_ranges(connection, [first]) == {first: OffsetRange(0, 6)}
    assert found(Earliest()) == (0, 0)
    assert found(Latest()) == (6, 1)
    assert found(AtOffset(4)) == (4, 1)
    assert found(BeforeEnd(2)) == (4, 0)
    assert found(AtTime(NOW + 3)) == (3, 1)
    assert found(AtTime(-5)) == (0, 0)
    assert find_offsets(connection, [], Earliest()) == {}


def test_positions_in_an_unknown_topic_cannot_be_found(connection: Cluster, fresh_name: str):
    with pytest.raises(UnknownTopic):
        offset_ranges(connection, [Partition(fresh_name, 0)])
