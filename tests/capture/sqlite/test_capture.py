"""A capture from SQLite into a broker: what is in the tables is in the topics."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Broker
from headrace.capture import Capture, Condition
from headrace.settings import KafkaSettings
from tests.capture.replaying import eventually, replayed, values_of
from tests.capture.sqlite.conftest import File


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(flush="os") as started:
        yield started


def capture(file: File, broker: Broker, to: str) -> Capture:
    return Capture(
        file.url,
        tables=["*"],
        to=to,
        kafka=KafkaSettings(bootstrap=broker.bootstrap),
        heartbeat_ms=200,
        discovery_ms=100,
    )


def following(running: Capture) -> bool:
    assert running.progress.condition is not Condition.FAILED, running.progress.failure
    return running.progress.condition is Condition.FOLLOWING


def items(broker: Broker, topic: str) -> list[Any]:
    """The rows that a topic leads to, in the order of their keys."""
    return [tuple(row.values()) for _, row in sorted(replayed(broker.bootstrap, topic).items())]


def test_values_in_topics(file: File, broker: Broker, fresh_name: str) -> None:
    file.script(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, i INT, t TEXT, b BLOB, r REAL, d DATETIME, x)"
    )
    rows = [
        (1, 2**63 - 1, "text", b"\x00\xff", 0.1, "2026-11-18", None),
        (2, "word", b"\x01", "text", float("-inf"), 1.5, 7),
        (3, 2.5, None, 5, None, 1234, b"\x02"),
    ]
    file.run("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)", *rows[0])
    with capture(file, broker, fresh_name) as running:
        eventually(lambda: following(running))
        for row in rows[1:]:
            file.run("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)", *row)
        eventually(lambda: len(items(broker, f"{fresh_name}.main.t")) == 3)

    def blob(value: bytes) -> str:
        return base64.b64encode(value).decode()

    assert items(broker, f"{fresh_name}.main.t") == [
        (1, 2**63 - 1, "text", blob(b"\x00\xff"), 0.1, "2026-11-18", None),
        (2, "word", {"blob": blob(b"\x01")}, {"text": "text"}, "-Infinity", 1.5, 7),
        (3, 2.5, None, 5, None, 1234, {"blob": blob(b"\x02")}),
    ]
    sources = [event["source"] for event in values_of(broker.bootstrap, f"{fresh_name}.main.t")]
    assert {each["connector"] for each in sources} == {"sqlite"}
    assert [each["snapshot"] for each in sources] == ["incremental", "false", "false"]


def test_tables_that_come_change_and_are_made_anew(
    file: File, broker: Broker, fresh_name: str
) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1)")
    with capture(file, broker, fresh_name) as running:
        eventually(lambda: following(running))
        file.script("CREATE TABLE n (a); INSERT INTO n VALUES (5), (6)")
        eventually(lambda: items(broker, f"{fresh_name}.main.n") == [(1, 5), (2, 6)])
        file.script("ALTER TABLE t ADD COLUMN b INT; INSERT INTO t VALUES (2, 2, 2)")
        eventually(lambda: items(broker, f"{fresh_name}.main.t")[-1:] == [(2, 2, 2)])
        file.script(
            "BEGIN; CREATE TABLE new (id INTEGER PRIMARY KEY, c); INSERT INTO new VALUES (7, 'x');"
            "DROP TABLE t; ALTER TABLE new RENAME TO t; COMMIT"
        )
        eventually(lambda: items(broker, f"{fresh_name}.main.t") == [(7, "x")])
        file.script("DELETE FROM n WHERE a = 5; VACUUM; INSERT INTO n VALUES (8)")
        eventually(
            lambda: (
                items(broker, f"{fresh_name}.main.n")
                == file.run("SELECT rowid, a FROM n ORDER BY rowid")
            )
        )
