"""Topics copied into stores: SQLite here, and what every store does is in `tests/views/stores`."""

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from headrace import Broker
from headrace.cli.sink import line_of
from headrace.kafka import UnknownTopic
from headrace.settings import KafkaSettings
from headrace.views.copying import Condition, Copy, InvalidCopy
from headrace.views.copying.errors import RecordRejected
from headrace.views.copying.metrics import exposition
from headrace.views.stores import ClaimLost, InvalidStore, RowRefused

SCHEMA = "id bigint, name string, price double"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(flush="os") as started:
        yield started


@pytest.fixture
def kafka(broker: Broker) -> KafkaSettings:
    return KafkaSettings(bootstrap=broker.bootstrap)


def send(kafka: KafkaSettings, topic: str, records: Sequence[tuple[Any, Any]]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for key, value in records:
        written = value if isinstance(value, bytes | None) else json.dumps(value).encode()
        producer.produce(topic, written, None if key is None else str(key).encode())
    assert producer.flush(20) == 0


def rows(path: Path, table: str = "orders") -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
    finally:
        connection.close()


def read(kafka: KafkaSettings, topic: str, count: int) -> list[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "test",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        found += [each for each in consumer.consume(count, 0.2) if each.error() is None]
    consumer.close()
    return found


def await_rows(path: Path, expected: list[tuple[Any, ...]], table: str = "orders") -> None:
    deadline = time.monotonic() + 30
    found: list[tuple[Any, ...]] = []
    while time.monotonic() < deadline:
        try:
            found = rows(path, table)
        except sqlite3.OperationalError:
            found = []
        if found == expected:
            return
        time.sleep(0.05)
    raise AssertionError(f"{found} is not {expected}")


def test_rows_follow_their_keys(kafka: KafkaSettings, tmp_path: Path) -> None:
    topic, path = "follow", tmp_path / "shop.db"
    send(kafka, topic, [(1, {"id": 1, "name": "ann", "price": 1.5}), (2, {"id": 2, "name": "bob"})])
    with Copy(
        topic, to=f"sqlite:///{path}", table="orders", key=["id"], schema=SCHEMA, kafka=kafka
    ) as copy:
        await_rows(path, [(1, "ann", 1.5), (2, "bob", None)])
        send(kafka, topic, [(1, None), (2, {"name": "rob", "price": 2}), (3, {"id": 3})])
        await_rows(path, [(2, "rob", 2.0), (3, None, None)])
        assert line_of(copy.progress).startswith("follow-to-orders: copying, 5 rows")
    assert copy.progress.condition is Condition.STOPPED
    assert (copy.progress.rows, copy.progress.records, copy.progress.rejected) == (5, 5, 0)


def test_a_stopped_copy_goes_on_where_it_was(kafka: KafkaSettings, tmp_path: Path) -> None:
    topic, path = "appended", tmp_path / "shop.db"
    for number in range(3):
        send(kafka, topic, [(None, {"id": number, "name": "n", "price": 0.5})])
        copy = Copy(
            topic, to=f"sqlite:///{path}", table="orders", schema=SCHEMA, kafka=kafka, once=True
        )
        assert copy.run().rows == 1
        assert copy.progress.condition is Condition.FINISHED
    assert rows(path) == [(number, "n", 0.5) for number in range(3)]


def test_changes_of_debezium_become_rows(kafka: KafkaSettings, tmp_path: Path) -> None:
    topic, path = "shop.public.orders", tmp_path / "shop.db"

    def change(op: str, before: Any, after: Any) -> dict[str, Any]:
        return {"op": op, "before": before, "after": after, "source": {"ts_ms": 5}, "ts_ms": 6}

    ann, anna = ({"id": 1, "name": name, "price": 1.0} for name in ("ann", "anna"))
    bob = {"id": 2, "name": "bob", "price": 2.0}
    key = json.dumps({"id": 1})
    send(
        kafka,
        topic,
        [
            (key, change("c", None, ann)),
            ('{"id": 2}', change("r", None, bob)),
            (key, change("u", ann, anna)),
            ('{"id": 2}', change("d", bob, None)),
            ('{"id": 2}', None),
        ],
    )
    options = {"table": "orders", "format": "debezium", "schema": SCHEMA}
    Copy(topic, to=f"sqlite:///{path}", key=["id"], kafka=kafka, once=True, **options).run()
    assert rows(path) == [(1, "anna", 1.0)]


def test_records_that_do_not_parse_and_rows_that_are_refused_are_dead_letters(
    kafka: KafkaSettings, tmp_path: Path
) -> None:
    topic, path, letters = "mixed", tmp_path / "shop.db", "mixed.dead"
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, price REAL CHECK (price >= 0))"
    )
    connection.close()
    send(
        kafka,
        topic,
        [
            (1, {"id": 1, "name": "ann", "price": 1}),
            (2, b"not json"),
            (3, {"id": 3, "name": "cheap", "price": -1}),
            (None, {"name": "nobody"}),
            (5, {"id": 5, "name": "eve", "price": 5}),
        ],
    )
    options: dict[str, Any] = {"table": "orders", "schema": SCHEMA, "key": ["id"], "kafka": kafka}
    copy = Copy(topic, to=f"sqlite:///{path}", once=True, dead_letters=letters, **options)
    assert (copy.run().rejected, copy.progress.rows) == (3, 2)
    assert rows(path) == [(1, "ann", 1.0), (5, "eve", 5.0)]
    found = read(kafka, letters, 3)
    reasons = {each.value(): dict(each.headers())["headrace.reason"] for each in found}
    assert reasons.keys() == {
        b"not json",
        b'{"id": 3, "name": "cheap", "price": -1}',
        b'{"name": "nobody"}',
    }
    assert b"CHECK constraint failed" in reasons[b'{"id": 3, "name": "cheap", "price": -1}']
    assert {dict(each.headers())["headrace.offset"] for each in found} == {b"1", b"2", b"3"}


def test_without_dead_letters_a_bad_record_ends_it_and_is_named(
    kafka: KafkaSettings, tmp_path: Path
) -> None:
    path = tmp_path / "shop.db"
    send(kafka, "bad", [(None, {"id": 1}), (None, b"{")])
    copy = Copy("bad", to=f"sqlite:///{path}", schema=SCHEMA, kafka=kafka, once=True)
    with pytest.raises(RecordRejected, match=r"bad-0 at offset 1: .* dead_letters"):
        copy.run()
    assert copy.progress.condition is Condition.FAILED
    assert rows(path, "bad") == []
    skipping = Copy(
        "bad", to=f"sqlite:///{path}", schema=SCHEMA, kafka=kafka, once=True, on_error="skip"
    )
    assert (skipping.run().rows, skipping.progress.rejected) == (1, 1)
    send(kafka, "bad", [(None, {"id": 2}), (None, {"id": 3, "name": "x"})])
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TRIGGER no BEFORE INSERT ON bad WHEN new.id = 3 "
        "BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    connection.close()
    with pytest.raises(RowRefused, match="bad-0 at offset 3: the store refuses the row: no"):
        Copy("bad", to=f"sqlite:///{path}", schema=SCHEMA, kafka=kafka, once=True).run()


def test_a_second_run_of_the_same_copy_fences_the_first(
    kafka: KafkaSettings, tmp_path: Path
) -> None:
    path = tmp_path / "shop.db"
    send(kafka, "twice", [(None, {"id": 1})])
    options: dict[str, Any] = {"to": f"sqlite:///{path}", "schema": SCHEMA, "kafka": kafka}
    first = Copy("twice", **options).start()
    await_rows(path, [(1, None, None)], "twice")
    with Copy("twice", **options) as second:
        while second.progress.condition is not Condition.COPYING:
            time.sleep(0.01)
        send(kafka, "twice", [(None, {"id": 2})])
        with pytest.raises(ClaimLost):
            first._run.wait(30)
        await_rows(path, [(1, None, None), (2, None, None)], "twice")


def test_a_store_that_is_away_is_waited_for(kafka: KafkaSettings, tmp_path: Path) -> None:
    directory = tmp_path / "later"
    send(kafka, "away", [(None, {"id": 1})])
    copy = Copy("away", to=f"sqlite:///{directory}/shop.db", schema=SCHEMA, kafka=kafka).start()
    deadline = time.monotonic() + 20
    while copy.progress.condition is not Condition.WAITING and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "unable to open" in (copy.progress.failure or "")
    assert 'headrace_sink_up{sink="away-to-away"} 0' in exposition([copy.progress])
    directory.mkdir()
    await_rows(directory / "shop.db", [(1, None, None)], "away")
    copy.stop()
    assert copy.progress.restarts > 0
    assert copy.progress.failure is None


def test_what_makes_no_sense_is_said_at_once(kafka: KafkaSettings, tmp_path: Path) -> None:
    with pytest.raises(InvalidStore, match="names no store"):
        Copy("orders", to="oracle://host/db", kafka=kafka)
    with pytest.raises(InvalidCopy, match="formt"):
        Copy("orders", to="sqlite:///a.db", kafka=kafka, formt="json")
    with pytest.raises(UnknownTopic):
        Copy("nowhere", to=f"sqlite:///{tmp_path}/a.db", schema="id int", kafka=kafka).run()
