"""Which records belong to each other, and how a trace is put together."""

import json
from typing import Any

import pytest

from headrace.console.observing.decoding import Decoder
from headrace.console.observing.flows import BatchSeen, FlowRow, FlowsSample
from headrace.console.observing.records import RecordSeen
from headrace.console.observing.tracing import Tracer, related
from headrace.console.observing.writing import produce
from headrace.kafka import Cluster
from headrace.settings import KafkaSettings
from tests.clusters import Cluster as Running
from tests.conftest import TopicFactory


def record(key: object, value: object) -> RecordSeen:
    raw_key = key.encode() if isinstance(key, str) else json.dumps(key).encode()
    raw_value = json.dumps(value).encode()
    decoder = Decoder()
    return RecordSeen(
        "t",
        0,
        0,
        0,
        decoder.decode(raw_key),
        decoder.decode(raw_value),
        (),
        0,
        raw_key,
        raw_value,
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (record("7", {}), record("7", {}), True),
        (record({"id": 7}, {}), record("7", {}), True),
        (record({"schema": {}, "payload": {"id": 7}}, {}), record("7", {}), True),
        (record({"id": 7}, {"id": 7}), record("ada", {"order_id": 7, "total": 1}), True),
        (record({"id": 7}, {"id": 7}), record("ada", {"id": 8}), False),
        (record({"id": 7}, {"id": 7}), record("minute 12", {"count": 7}), False),
        (record("7", {}), record("8", {}), False),
    ],
)
def test_records_about_the_same_thing(one: RecordSeen, other: RecordSeen, expected: bool) -> None:
    assert related(one, other) is expected
    assert related(other, one) is expected


def flow(title: str, reads: str, writes: str) -> FlowRow:
    output: dict[str, Any] = {
        "output": "out",
        "reads": [reads],
        "writes": writes,
        "sink": None,
        "dead_letters": [],
    }
    return FlowRow(title, title, "1", True, "running", 0, "", 0, (output,))


def test_a_record_is_followed_through_two_flows_in_both_directions(
    cluster: Running, new_topic: TopicFactory
) -> None:
    kafka = Cluster(KafkaSettings(bootstrap=cluster.bootstrap))
    first, second, third = new_topic(), new_topic(), new_topic()
    change = {
        "op": "c",
        "before": None,
        "after": {"id": 7},
        "source": {"db": "shop", "schema": "public", "table": "orders", "lsn": 5, "ts_ms": 1000},
        "ts_ms": 2000,
    }
    for number in (6, 7, 8):
        told = json.dumps(change | {"after": {"id": number}}).encode()
        produce(kafka, first, told, json.dumps({"id": number}).encode())
    for topic in (second, third):
        for number in (6, 7, 8):
            produce(kafka, topic, json.dumps({"id": number}).encode(), str(number).encode())
    now = _time_of(kafka, third)
    rows = {"one": flow("one", first, second), "two": flow("two", second, third)}
    batches = tuple(
        BatchSeen(name, "out", 3, now - 5_000, 6_000, 3, {topic: {"0": (0, 3)}})
        for name, topic in (("one", first), ("two", second))
    )
    tracer = Tracer(kafka, Decoder(), FlowsSample(rows, batches))
    forward = tracer.trace(first, 0, 1)
    assert [each.kind for each in forward.before] == ["commit", "capture"]
    assert forward.before[0].title == "created in shop.public.orders"
    (branch,) = forward.after
    assert [each.kind for each in branch] == ["flow", "topic", "flow", "topic"]
    assert branch[-1].title == third
    assert branch[-1].detail == "partition 0, offset 1"
    backward = tracer.trace(third, 0, 1)
    assert [each.kind for each in backward.before] == [
        "commit",
        "capture",
        "topic",
        "flow",
        "topic",
        "flow",
    ]
    assert backward.began_ms == 1000
    assert backward.after == ()


def test_what_is_not_known_is_said(cluster: Running, new_topic: TopicFactory) -> None:
    kafka = Cluster(KafkaSettings(bootstrap=cluster.bootstrap))
    source, counts = new_topic(), new_topic()
    produce(kafka, source, b'{"id": 7}', b"7")
    rows = {"count": flow("count", source, counts)}
    unread = Tracer(kafka, Decoder(), FlowsSample(rows)).trace(source, 0, 0)
    assert unread.after[0][0].missing
    produce(kafka, counts, b'{"count": 1}', b"minute 12")
    now = _time_of(kafka, counts)
    batch = BatchSeen("count", "out", 1, now - 5_000, 6_000, 1, {source: {"0": (0, 1)}})
    read = Tracer(kafka, Decoder(), FlowsSample(rows, (batch,))).trace(source, 0, 0)
    assert [each.missing for each in read.after[0]] == [False, True]
    assert "may be a part of one" in read.after[0][1].detail
    assert Tracer(kafka, Decoder(), FlowsSample()).trace(source, 0, 99).record is None


def _time_of(kafka: Cluster, topic: str) -> int:
    from headrace.console.observing.messages import read_record

    found = read_record(kafka, topic, 0, 0, Decoder())
    assert found is not None
    assert found.timestamp is not None
    return found.timestamp
