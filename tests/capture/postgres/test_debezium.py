"""The same changes through Debezium and through us: the same records, but for what is listed.

Both capture the same database, each into a broker of its own, so that all names are the same. What
differs on purpose is in `OTHERWISE`, with the reason; the test fails if anything else differs, and
also if something there does not differ any more.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.debezium import JARS, Debezium
from headrace import Broker
from headrace.testing.kafka_jars import unavailable
from tests.capture.conftest import Database
from tests.capture.postgres.test_types import CASES
from tests.capture.replaying import eventually, records_of
from tests.capture.starting import capture, following

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TABLES = ("types", "orders", "whole", "keyless")
TOPICS = (*(f"shop.public.{table}" for table in TABLES), "shop.message", "shop.transaction")
OTHERWISE = {
    "payload.source.version": "names the program and its version",
    "payload.ts_ms": "the clock of whoever captured it",
    "payload.ts_us": "the clock",
    "payload.ts_ns": "the clock",
    "payload.source.ts_ms": "a message outside of transactions: now, not the last commit before it",
    "payload.source.ts_us": "the same",
    "payload.source.ts_ns": "the same",
    "payload.source.sequence": "which commit was last: such a message is none, our greeting is one",
    "payload.id": "one per transaction; Debezium's has another place in every event",
    "payload.transaction.id": "the same",
    "payload.data_collections.data_collection": "of messages, Debezium prints a Java object",
    "payload.before.d": "not in the log: Debezium guesses the column's default, we say zero",
    "payload.before.at": "the same",
    "schema.fields.fields has": "defaults of columns are not told, nor columns that are left out",
    "schema.fields.fields.items.optional": "elements of an array of enums may be NULL",
    "schema.fields.fields.parameters.scale": "numeric(5,-2): Debezium takes -2 for 2046",
    "payload.after numeric(5,-2)": "the same",
    "payload.after name": "Debezium tells null",
    "payload.after date": "infinity: Debezium tells a number that overflowed",
    "payload.after timestamp": "the year 294276: the same",
    "payload.after interval": "infinity: Debezium tells zero",
    "payload.after int[]": "arrays of arrays: Debezium tells nulls",
    "payload.after has": "int4multirange and box[]: Debezium leaves such columns out",
    "headers has": "Debezium names its connector, task and run",
}


@pytest.fixture(autouse=True)
def _debezium() -> None:
    if reason := unavailable(JARS):
        pytest.skip(reason)


@pytest.fixture
def other() -> Iterator[Broker]:
    """The broker that Debezium writes to."""
    with Broker(flush="os") as started:
        yield started


def test_records_are_debeziums_field_for_field(
    database: Database, broker: Broker, other: Broker
) -> None:
    make_tables(database)
    slot = f"debezium_{database.name}"
    debezium = Debezium(
        database.url,
        other.bootstrap,
        prefix="shop",
        slot=slot,
        tables=",".join(f"public.{table}" for table in TABLES),
        schemas=True,
        options={
            "snapshot.mode": "no_data",
            "provide.transaction.metadata": "true",
            "skipped.operations": "none",
        },
    )
    options: dict[str, Any] = {"snapshot": False, "transactions": True, "schemas": True}
    with debezium, capture(database.url, broker, "shop", **options) as running:
        active = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"

        def ready() -> bool:
            debezium.check()
            return following(running) and bool(database.run(active, slot))

        eventually(ready, 120)
        change_rows(database)

        def all_told() -> bool:
            debezium.check()
            return all(len(told(broker, each)) == len(told(other, each)) for each in TOPICS)

        eventually(lambda: running.progress.changes == len(CASES) + 13, 60)
        eventually(all_told, 60)
    found: dict[str, list[str]] = {}
    for topic in TOPICS:
        for ours, theirs in zip(told(broker, topic), told(other, topic), strict=True):
            for path, mine, another in differences(ours, theirs):
                found.setdefault(named(path), []).append(f"{topic}: {mine} | {another}"[:500])
    unexpected = {path: found[path][:3] for path in found.keys() - OTHERWISE.keys()}
    assert unexpected == {}
    assert found.keys() == OTHERWISE.keys()


def make_tables(database: Database) -> None:
    database.run("CREATE TYPE mood AS ENUM ('sad', 'so so', 'happy')")
    database.run("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    columns = ", ".join(f"c{place} {type_}" for place, (type_, *_) in enumerate(CASES))
    database.run(f"CREATE TABLE types (id int PRIMARY KEY, {columns})")
    database.run(
        "CREATE TABLE orders (id int PRIMARY KEY, n int NOT NULL, s text,"
        " d numeric(5,2) NOT NULL DEFAULT 1.5, at timestamptz NOT NULL DEFAULT '2026-01-01Z')"
    )
    database.run("CREATE TABLE whole (id int, part text, n int, PRIMARY KEY (part, id))")
    database.run("CREATE TABLE keyless (a int, b text)")
    for table in ("whole", "keyless"):
        database.run(f"ALTER TABLE {table} REPLICA IDENTITY FULL")


def change_rows(database: Database) -> None:
    for place, (_, literal, *_) in enumerate(CASES):
        database.run(f"INSERT INTO types (id, c{place}) VALUES ({place}, {literal})")
    database.run(
        "BEGIN; INSERT INTO orders VALUES (1, 2, 'a'), (2, 3, 'b');"
        " UPDATE orders SET n = 5 WHERE id = 1; INSERT INTO whole VALUES (1, 'p', 2); COMMIT"
    )
    database.run("UPDATE orders SET id = 7 WHERE id = 1")
    database.run("DELETE FROM orders WHERE id = 2")
    database.run("UPDATE whole SET n = 3; UPDATE whole SET id = 4; DELETE FROM whole")
    database.run("INSERT INTO keyless VALUES (1, 'x'); UPDATE keyless SET b = 'y'")
    database.run("SELECT pg_logical_emit_message(true, 'greeting', 'hello')")
    database.run("SELECT pg_logical_emit_message(false, 'greeting', 'outside')")
    database.run("TRUNCATE orders")
    database.run("INSERT INTO orders VALUES (10, 9, 'z')")
    # Its tombstone has neither key nor value, and we write none.
    database.run("DELETE FROM keyless")


def told(broker: Broker, topic: str) -> list[dict[str, Any]]:
    """The records of a topic, with what is in them; without those that are empty."""
    found = [
        {
            "key": json.loads(each.key() or b"null"),
            "value": json.loads(each.value() or b"null"),
            "headers": {name: str(value) for name, value in dict(each.headers() or []).items()},
        }
        for each in records_of(broker.bootstrap, topic)
    ]
    return [each for each in found if (each["key"], each["value"]) != (None, None)]


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two documents differ, by the names that lead there.

    The order of names counts in what is told, and not in its schemas.
    """
    if isinstance(ours, dict) and isinstance(theirs, dict):
        arranged = set if ".schema" in path else list
        if arranged(ours) != arranged(theirs):
            yield f"{path} has", list(ours), list(theirs)
        for name in [each for each in ours if each in theirs]:
            yield from differences(ours[name], theirs[name], f"{path}.{name}" if path else name)
    elif isinstance(ours, list) and isinstance(theirs, list):
        if all(isinstance(each, dict) and "field" in each for each in (*ours, *theirs)):
            mine, another = ({each["field"]: each for each in one} for one in (ours, theirs))
            if mine.keys() != another.keys():
                yield f"{path} has", list(mine), list(another)
            for name in mine.keys() & another.keys():
                yield from differences(mine[name], another[name], path)
        elif len(ours) == len(theirs):
            for one, other in zip(ours, theirs, strict=True):
                yield from differences(one, other, path)
        else:
            yield path, ours, theirs
    elif ours != theirs:
        yield path, ours, theirs


def named(path: str) -> str:
    """A path with the type of a column in place of its name, and without what is in all."""
    path = path.removeprefix("key.").removeprefix("value.")
    head, _, column = path.rpartition(".c")
    return f"{head} {CASES[int(column)][0]}" if head == "payload.after" else path
