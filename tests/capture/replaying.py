"""Topics read from their first record, and the tables that they lead to."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

Rows = dict[str, dict[str, Any]]
"""Rows as JSON has them, by their keys as records have them."""


def records_of(bootstrap: str, topic: str) -> list[Message]:
    """All that readers of committed records see in a topic now, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "replay",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=20).topics[topic]
        if known.error is not None:
            return []
        partitions = sorted(known.partitions)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        found: list[Message] = []
        open_ = set(partitions)
        while open_:
            for message in consumer.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.name() == "_PARTITION_EOF":
                    open_.discard(message.partition() or 0)
        return sorted(found, key=lambda each: (each.partition(), each.offset()))
    finally:
        consumer.close()


def values_of(bootstrap: str, topic: str) -> list[Any]:
    return [json.loads(each.value() or b"null") for each in records_of(bootstrap, topic)]


def replayed(bootstrap: str, topic: str) -> Rows:
    """The rows that a topic of Debezium's envelopes leads to, by their keys."""
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    for message in records_of(bootstrap, topic):
        partition, key = message.partition() or 0, (message.key() or b"").decode()
        value = message.value()
        if value is None:
            rows.pop((partition, key), None)
            continue
        event = json.loads(value)
        if event["op"] == "t":
            for each in [each for each in rows if each[0] == partition]:
                del rows[each]
        elif event["op"] == "d":
            rows.pop((partition, key), None)
        else:
            rows[partition, key] = event["after"]
    return {key: row for (_, key), row in rows.items()}


def rows_of(database: Any, table: str, key: str = "id") -> Rows:
    """The rows of a table as JSON has them, by their keys as records have them."""
    found = database.run(f"SELECT row_to_json(t)::text FROM {table} t")
    rows = [json.loads(row) for (row,) in found]
    return {json.dumps({key: row[key]}, separators=(",", ":")): row for row in rows}


def await_equal(found: Callable[[], Rows], wanted: Rows, topic: str) -> None:
    """Wait until a topic leads to some rows, and show how they differ if it does not."""
    try:
        eventually(lambda: found() == wanted, 60)
    except AssertionError:
        last = found()
        differences = {
            key: (last.get(key), wanted.get(key))
            for key in last.keys() | wanted.keys()
            if last.get(key) != wanted.get(key)
        }
        raise AssertionError(f"{topic} differs: {str(differences)[:2000]}") from None


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something that will be so."""
    deadline = time.monotonic() + seconds
    for _ in _looks():
        if condition():
            return
        assert time.monotonic() < deadline, "it did not come"


def _looks() -> Iterator[None]:
    while True:
        yield
        time.sleep(0.02)
