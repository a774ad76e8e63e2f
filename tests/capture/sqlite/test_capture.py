"""A capture from SQLite into a broker: what is in the tables is in the topics."""

import base64

from headrace import Broker
from tests.capture.replaying import eventually, records_of, values_of
from tests.capture.sqlite.conftest import File
from tests.capture.starting import capture, following, items


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
    with capture(file.url, broker, fresh_name) as running:
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
    with capture(file.url, broker, fresh_name) as running:
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


def test_rows_of_an_outbox_are_events_of_topics_that_they_name(
    file: File, broker: Broker, fresh_name: str
) -> None:
    file.script(
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, aggregatetype, aggregateid, type, payload)"
    )
    with capture(file.url, broker, fresh_name, outbox=("outbox",)) as running:
        eventually(lambda: following(running))
        file.run("INSERT INTO outbox VALUES (1, ?, 7, 'Placed', ?)", fresh_name, '{"n": 3}')
        file.run("DELETE FROM outbox")
        eventually(lambda: running.progress.changes == 2)
    (event,) = records_of(broker.bootstrap, f"outbox.event.{fresh_name}")
    assert (event.key(), event.value()) == (b"7", b'{"n": 3}')
    assert records_of(broker.bootstrap, f"{fresh_name}.main.outbox") == []
