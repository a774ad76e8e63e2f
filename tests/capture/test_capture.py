"""A capture from a real PostgreSQL into real clusters: what is in the tables is in the topics."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from headrace.capture import Capture, CaptureTakenOver, Condition, LogRetained, PositionLost
from headrace.capture.metrics import exposition
from headrace.capture.running import CaptureRuns
from headrace.kafka import Cluster as Kafka
from headrace.kafka import create_topic
from headrace.settings import CaptureSettings, KafkaSettings
from tests.capture.conftest import Database
from tests.capture.replaying import eventually, records_of, replayed, rows_of, values_of
from tests.clusters import HEADRACE, Cluster

Begin = Callable[..., Capture]


@pytest.fixture
def capture(cluster: Cluster, database: Database, fresh_name: str) -> Iterator[Begin]:
    """Starts captures of the test's database, into topics of its own."""
    with ExitStack() as running:

        def begin(*tables: str, **options: Any) -> Capture:
            given: dict[str, Any] = {"heartbeat_ms": 500, "discovery_ms": 300, "to": fresh_name}
            kafka = KafkaSettings(bootstrap=cluster.bootstrap)
            chosen = given | {"tables": tables or ["*"], "kafka": kafka} | options
            described = Capture(database.url, **chosen)
            return running.enter_context(described)

        yield begin


def caught_up(capture: Capture, changes: int, rows: int = 0) -> bool:
    progress = capture.progress
    assert progress.condition is not Condition.FAILED, progress.failure
    return progress.changes >= changes and progress.rows_read >= rows


def test_rows_before_and_after_the_start_are_in_the_topic(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE orders (id int PRIMARY KEY, item text, n int)")
    database.run("INSERT INTO orders SELECT i, 'item ' || i, i FROM generate_series(1, 100) i")
    running = capture("orders")
    eventually(lambda: running.progress.condition is Condition.FOLLOWING)
    database.run("UPDATE orders SET n = n + 1 WHERE id <= 10")
    database.run("DELETE FROM orders WHERE id > 95")
    database.run("UPDATE orders SET id = 1000 WHERE id = 1")
    eventually(lambda: caught_up(running, 16, 100))
    topic = f"{fresh_name}.public.orders"
    assert replayed(cluster.bootstrap, topic) == rows_of(database, "orders")
    events = values_of(cluster.bootstrap, topic)
    assert [each["op"] for each in events if each].count("r") == 100
    assert events.count(None) == 6


only_headrace = pytest.mark.parametrize("cluster", [HEADRACE], indirect=True)


def following(capture: Capture) -> None:
    """Wait until everything that was there is told."""
    eventually(lambda: capture.progress.condition in (Condition.FOLLOWING, Condition.FAILED))
    assert capture.progress.condition is Condition.FOLLOWING, capture.progress.failure


def test_a_truncated_table_is_empty_in_every_partition(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    running = capture(partitions=3)
    following(running)
    database.run("INSERT INTO t SELECT i, i FROM generate_series(1, 20) i")
    database.run("TRUNCATE t")
    database.run("INSERT INTO t VALUES (1, 7)")
    eventually(lambda: caught_up(running, 21))
    topic = f"{fresh_name}.public.t"
    assert replayed(cluster.bootstrap, topic) == {'{"id":1}': {"id": 1, "n": 7}}
    truncates = [each for each in records_of(cluster.bootstrap, topic) if each.key() == b"null"]
    assert sorted(each.partition() or 0 for each in truncates) == [0, 1, 2]


@only_headrace
def test_the_envelope_is_debeziums(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, s text)")
    running = capture(transactions=True)
    following(running)
    database.run("BEGIN; INSERT INTO t VALUES (1, 2, 'a'); DELETE FROM t; COMMIT")
    eventually(lambda: caught_up(running, 2))
    inserted, deleted, tombstone = records_of(cluster.bootstrap, f"{fresh_name}.public.t")
    assert inserted.key() == deleted.key() == tombstone.key() == b'{"id":1}'
    assert tombstone.value() is None
    event = json.loads(inserted.value() or b"")
    assert [*event] == [
        *("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns")
    ]
    assert (event["before"], event["after"]) == (None, {"id": 1, "n": 2, "s": "a"})
    source = event["source"]
    assert [*source] == [
        *("version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns"),
        *("schema", "table", "txId", "lsn", "xmin", "origin", "origin_lsn"),
    ]
    assert (source["connector"], source["name"], source["snapshot"]) == (
        *("postgresql", fresh_name, "false"),
    )
    assert json.loads(source["sequence"])[1] == str(source["lsn"])
    gone = json.loads(deleted.value() or b"")
    # The log tells the key only, and n may not be missing.
    assert (gone["before"], gone["after"]) == ({"id": 1, "n": 0, "s": None}, None)
    assert gone["transaction"] == {
        "id": event["transaction"]["id"],
        "total_order": 2,
        "data_collection_order": 2,
    }
    begun, ended = values_of(cluster.bootstrap, f"{fresh_name}.transaction")
    assert (begun["status"], ended["status"], ended["event_count"]) == ("BEGIN", "END", 2)
    assert begun["id"] == ended["id"] == gone["transaction"]["id"]
    assert ended["data_collections"] == [{"data_collection": "public.t", "event_count": 2}]


@only_headrace
def test_records_can_carry_their_schemas(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, n numeric(5,2))")
    running = capture(schemas=True)
    following(running)
    database.run("INSERT INTO t VALUES (1, 2.5)")
    eventually(lambda: caught_up(running, 1))
    (record,) = records_of(cluster.bootstrap, f"{fresh_name}.public.t")
    key, value = json.loads(record.key() or b""), json.loads(record.value() or b"")
    assert key["payload"] == {"id": 1}
    assert key["schema"]["name"] == f"{fresh_name}.public.t.Key"
    assert value["payload"]["after"] == {"id": 1, "n": "APo="}
    fields = {each["field"]: each for each in value["schema"]["fields"]}
    assert [*fields] == [*value["payload"]]
    assert [each["field"] for each in fields["source"]["fields"]] == [*value["payload"]["source"]]
    decimal = fields["after"]["fields"][1]
    assert (decimal["name"], decimal["parameters"]["scale"]) == (
        *("org.apache.kafka.connect.data.Decimal", "2"),
    )


@only_headrace
def test_a_changed_key_is_a_delete_and_an_insert_that_name_each_other(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    running = capture()
    following(running)
    database.run("INSERT INTO t VALUES (1, 5)")
    database.run("UPDATE t SET id = 2")
    eventually(lambda: caught_up(running, 2))
    _, gone, tombstone, come = records_of(cluster.bootstrap, f"{fresh_name}.public.t")
    assert (gone.key(), tombstone.key(), come.key()) == (*(b'{"id":1}', b'{"id":1}', b'{"id":2}'),)
    assert gone.headers() == [("__debezium.newkey", b'{"id":2}')]
    assert come.headers() == [("__debezium.oldkey", b'{"id":1}')]
    assert json.loads(come.value() or b"")["op"] == "c"


@only_headrace
def test_plain_rows_have_headers_and_a_delete_has_no_value(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    running = capture(envelope="plain")
    following(running)
    database.run("INSERT INTO t VALUES (1, 5)")
    database.run("DELETE FROM t")
    eventually(lambda: caught_up(running, 2))
    inserted, deleted = records_of(cluster.bootstrap, f"{fresh_name}.public.t")
    assert (inserted.key(), inserted.value()) == (b'{"id":1}', b'{"id":1,"n":5}')
    headers = list(inserted.headers() or [])
    assert [each[0] for each in headers] == ["op", "ts_ms", "transaction"]
    assert headers[0][1] == b"c"
    assert (deleted.value(), next(iter(deleted.headers() or []))[1]) == (None, b"d")


@only_headrace
def test_rows_of_an_outbox_are_events_of_topics_that_they_name(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    kind = fresh_name
    database.run(
        "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text,"
        " aggregateid text, type text, payload jsonb)"
    )
    running = capture(outbox=("outbox",))
    following(running)
    sql = "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES (%s, %s, %s, %s)"
    database.run(sql, kind, "7", "OrderPlaced", '{"total": 3}')
    database.run("DELETE FROM outbox")
    eventually(lambda: caught_up(running, 2))
    (event,) = records_of(cluster.bootstrap, f"outbox.event.{kind}")
    assert (event.key(), event.value()) == (b"7", b'{"total": 3}')
    assert [each[0] for each in event.headers() or []] == ["id", "eventType"]
    assert records_of(cluster.bootstrap, f"{fresh_name}.public.outbox") == []


@only_headrace
def test_messages_of_applications_have_a_topic(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    running = capture()
    following(running)
    database.run("SELECT pg_logical_emit_message(true, 'audit', 'hello')")
    eventually(lambda: bool(records_of(cluster.bootstrap, f"{fresh_name}.message")))
    (message,) = records_of(cluster.bootstrap, f"{fresh_name}.message")
    event = json.loads(message.value() or b"")
    assert message.key() == b'{"prefix":"audit"}'
    assert (event["op"], event["message"]) == ("m", {"prefix": "audit", "content": "aGVsbG8="})


@only_headrace
def test_changed_tables_are_told_in_a_topic_and_flow_on(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    running = capture()
    following(running)
    database.run("INSERT INTO t VALUES (1)")
    database.run("ALTER TABLE t ADD note text DEFAULT 'x'")
    database.run("INSERT INTO t VALUES (2, 'y')")
    eventually(lambda: caught_up(running, 2))
    events = [each["tableChanges"][0] for each in values_of(cluster.bootstrap, fresh_name)]
    assert [(each["type"], each["version"]) for each in events] == [("CREATE", 1), ("ALTER", 2)]
    assert [column["name"] for column in events[1]["table"]["columns"]] == ["id", "note"]
    after = values_of(cluster.bootstrap, f"{fresh_name}.public.t")[-1]["after"]
    assert after == {"id": 2, "note": "y"}


@only_headrace
def test_a_changed_table_is_told_even_if_no_row_follows(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    running = capture(discovery_ms=100)
    following(running)
    database.run("INSERT INTO t VALUES (1)")
    database.run("ALTER TABLE t ADD note text")

    def shapes() -> list[tuple[int, list[str]]]:
        changes = [each["tableChanges"][0] for each in values_of(cluster.bootstrap, fresh_name)]
        return [
            (each["version"], [column["name"] for column in each["table"]["columns"]])
            for each in changes
        ]

    eventually(lambda: len(shapes()) == 2)
    database.run("INSERT INTO t VALUES (2, 'x')")
    eventually(lambda: caught_up(running, 2))
    assert shapes() == [(1, ["id"]), (2, ["id", "note"])]


@only_headrace
def test_new_tables_join_and_recreated_ones_are_read_anew(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE first (id int PRIMARY KEY)")
    database.run("INSERT INTO first VALUES (1), (2)")
    running = capture("*")
    following(running)
    database.run("CREATE TABLE second (id int PRIMARY KEY); INSERT INTO second VALUES (7)")
    topic = f"{fresh_name}.public.second"
    eventually(lambda: replayed(cluster.bootstrap, topic) == rows_of(database, "second"))
    database.run("DROP TABLE first; CREATE TABLE first (id int PRIMARY KEY, n int)")
    database.run("INSERT INTO first VALUES (2, 5), (3, 5)")
    topic = f"{fresh_name}.public.first"
    eventually(lambda: replayed(cluster.bootstrap, topic) == rows_of(database, "first"))


@only_headrace
def test_a_lost_slot_is_named_and_repaired_where_that_is_allowed(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
    running = capture()
    following(running)
    running.stop()
    ((slot,),) = database.run(
        "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    )
    eventually(
        lambda: (
            not database.run(
                "SELECT 1 FROM pg_replication_slots WHERE active AND slot_name = %s", slot
            )
        )
    )
    database.run("SELECT pg_drop_replication_slot(%s)", slot)
    database.run("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (3)")
    refused = Capture(
        database.url,
        tables=["*"],
        to=fresh_name,
        kafka=KafkaSettings(bootstrap=cluster.bootstrap),
    )
    with pytest.raises(PositionLost, match=f"slot {slot} .* is gone"):
        refused.run()
    capture(lost="snapshot")
    topic = f"{fresh_name}.public.t"
    eventually(lambda: replayed(cluster.bootstrap, topic) == rows_of(database, "t"))


@only_headrace
def test_a_second_process_takes_over_and_the_first_one_ends(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    kafka = KafkaSettings(bootstrap=cluster.bootstrap)
    first = Capture(database.url, tables=["*"], to=fresh_name, kafka=kafka, heartbeat_ms=200)
    first.start()
    following(first)
    second = capture()
    eventually(lambda: first.progress.condition is Condition.FAILED)
    with pytest.raises(CaptureTakenOver, match="taken over"):
        first.stop()
    following(second)
    database.run("INSERT INTO t VALUES (1)")
    eventually(lambda: caught_up(second, 1))


@only_headrace
def test_the_log_that_is_kept_has_a_limit(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    kafka = KafkaSettings(bootstrap=cluster.bootstrap)
    limited = Capture(
        database.url,
        tables=["t"],
        to=fresh_name,
        kafka=kafka,
        retained_limit=1 << 20,
        discovery_ms=100,
        heartbeat_ms=60_000,
    )
    limited.start()
    following(limited)
    # A transaction that stays open keeps the log from where it began.
    holder = database.connect()
    holder.autocommit = False
    holder.cursor().execute("INSERT INTO t VALUES (1)")
    database.run("CREATE TABLE elsewhere AS SELECT repeat('x', 100) FROM generate_series(1, 40000)")
    eventually(lambda: limited.progress.condition is Condition.FAILED)
    holder.close()
    with pytest.raises(LogRetained, match="retained_limit"):
        limited.stop()
    assert not database.run(
        "SELECT 1 FROM pg_replication_slots WHERE database = current_database()"
    )


@pytest.mark.slow
def test_a_compacted_topic_still_leads_to_the_table(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    topic = f"{fresh_name}.public.notes"
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "1000",
    }
    create_topic(Kafka(KafkaSettings(bootstrap=cluster.bootstrap)), topic, config=config)
    database.run("CREATE TABLE notes (id int PRIMARY KEY, body text, n int)")
    database.run("ALTER TABLE notes ALTER body SET STORAGE EXTERNAL")
    database.run("INSERT INTO notes SELECT i, repeat('x', 3000), 0 FROM generate_series(1, 100) i")
    running = capture()
    following(running)
    database.run("TRUNCATE notes")
    database.run("INSERT INTO notes SELECT i, repeat('y', 3000), 0 FROM generate_series(1, 90) i")
    for _ in range(10):
        # The log leaves out the body, and compaction takes away the records that had it.
        database.run("UPDATE notes SET n = n + 1")
    database.run("DELETE FROM notes WHERE id > 80")
    eventually(lambda: caught_up(running, 1000, 100))
    eventually(lambda: len(records_of(cluster.bootstrap, topic)) < 800, 60)
    assert replayed(cluster.bootstrap, topic) == rows_of(database, "notes")


@only_headrace
def test_several_captures_run_in_one_process(
    cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    described = [
        CaptureSettings(url=database.url, tables=(table,), to=f"{fresh_name}-{table}")
        for table in ("a", "b")
    ]
    runs = CaptureRuns(described, Kafka(KafkaSettings(bootstrap=cluster.bootstrap))).start()
    try:
        database.run("INSERT INTO a VALUES (1); INSERT INTO b VALUES (2)")
        for table in ("a", "b"):
            topic = f"{fresh_name}-{table}.public.{table}"
            wanted = rows_of(database, table)
            eventually(lambda: replayed(cluster.bootstrap, topic) == wanted)  # noqa: B023
        page = exposition(run.progress for run in runs.runs)
        assert f'headrace_capture_up{{capture="{fresh_name}-a"}} 1' in page
    finally:
        runs.stop()
