"""A database or a broker that goes away and comes back, and a log that moves on without us."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.capture import Capture, Condition, PositionLost
from headrace.capture.naming import object_name
from headrace.settings import KafkaSettings
from tests.capture.conftest import Database
from tests.capture.replaying import eventually, replayed, rows_of, values_of
from tests.capture.servers import PostgresServer
from tests.clusters import HEADRACE, Cluster, headrace_process

only_headrace = pytest.mark.parametrize("cluster", [HEADRACE], indirect=True)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own, for it to stop."""
    found = PostgresServer()
    try:
        found.start()
        yield found
    finally:
        found.remove()


@only_headrace
def test_a_capture_outlives_restarts_of_its_database(
    cluster: Cluster, server: PostgresServer, fresh_name: str
) -> None:
    database = Database(server, "postgres")
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    database.run("INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i")
    options: dict[str, Any] = {"chunk": 100, "heartbeat_ms": 200, "discovery_ms": 200}
    kafka = KafkaSettings(bootstrap=cluster.bootstrap)
    topic = f"{fresh_name}.public.t"
    with Capture(server.url(), tables=["t"], to=fresh_name, kafka=kafka, **options) as capture:
        for mode in ("immediate", "fast"):
            eventually(
                lambda: capture.progress.condition in (Condition.READING, Condition.FOLLOWING)
            )
            database.close()
            server.stop(mode)
            eventually(lambda: capture.progress.condition is Condition.WAITING)
            server.start()
            database = Database(server, "postgres")
            database.run("UPDATE t SET n = n + 1 WHERE id % 7 = 0")
        eventually(lambda: replayed(cluster.bootstrap, topic) == rows_of(database, "t"), 60)
        assert capture.progress.restarts >= 2
    database.close()


def test_a_capture_outlives_a_broker_that_is_killed(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    database.run("INSERT INTO t SELECT i, i FROM generate_series(1, 500) i")
    with headrace_process() as broker:
        kafka = KafkaSettings(bootstrap=broker.cluster.bootstrap)
        with Capture(database.url, tables=["t"], to="shop", kafka=kafka) as capture:
            eventually(lambda: capture.progress.condition is Condition.FOLLOWING)
            for _ in range(2):
                database.run("UPDATE t SET n = n + 1 WHERE id % 3 = 0")
                broker.kill()
                database.run("UPDATE t SET n = n + 1 WHERE id % 5 = 0")
                broker.start()
            bootstrap, wanted = broker.cluster.bootstrap, rows_of(database, "t")
            eventually(lambda: replayed(bootstrap, "shop.public.t") == wanted, 60)
            events = values_of(bootstrap, "shop.public.t")
    told = Counter(each["source"]["lsn"] for each in events if each["op"] == "u")
    assert set(told.values()) == {1}, "a change is told twice"


@only_headrace
def test_a_slot_that_somebody_moved_is_noticed(
    cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    kafka = KafkaSettings(bootstrap=cluster.bootstrap)
    described = Capture(database.url, tables=["t"], to=fresh_name, kafka=kafka)
    with described as capture:
        eventually(lambda: capture.progress.condition is Condition.FOLLOWING)
    database.run("INSERT INTO t VALUES (1)")
    slots = "FROM pg_replication_slots WHERE database = current_database()"
    eventually(lambda: database.run(f"SELECT active {slots}") == [(False,)])
    database.run(f"SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) {slots}")
    with pytest.raises(PositionLost, match="something else has read from it"):
        Capture(database.url, tables=["t"], to=fresh_name, kafka=kafka).run()


@only_headrace
def test_a_capture_that_waits_for_open_transactions_can_be_ended(
    cluster: Cluster, database: Database, fresh_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    holder = database.connect()
    holder.autocommit = False
    holder.cursor().execute("INSERT INTO t VALUES (1)")
    kafka = KafkaSettings(bootstrap=cluster.bootstrap)
    capture = Capture(database.url, tables=["t"], to=fresh_name, kafka=kafka).start()
    slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
    slot = object_name(fresh_name, 63)
    eventually(lambda: database.run(slots, slot) == [(1,)])
    capture.stop()
    assert capture.progress.condition is Condition.STOPPED
    assert database.run(slots, slot) == [(0,)]
    assert "once the transactions that are open now have ended" in caplog.text
    holder.commit()
    holder.close()
    with Capture(database.url, tables=["t"], to=fresh_name, kafka=kafka) as again:
        eventually(lambda: again.progress.condition is Condition.FOLLOWING)


@only_headrace
def test_a_slot_that_is_still_being_made_is_waited_for(
    cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    # A slot is not made before all transactions that were open have ended.
    holder = database.connect()
    holder.autocommit = False
    holder.cursor().execute("INSERT INTO t VALUES (1)")
    slot = object_name(fresh_name, 63)
    maker = threading.Thread(
        target=database.run,
        args=("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", slot),
    )
    maker.start()
    found = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
    with database.connect() as other, other.cursor() as cursor:

        def is_being_made() -> bool:
            cursor.execute(found, (slot,))
            return bool(cursor.fetchall() == [(None,)])

        eventually(is_being_made)
        kafka = KafkaSettings(bootstrap=cluster.bootstrap)
        with Capture(database.url, tables=["t"], to=fresh_name, kafka=kafka) as capture:
            eventually(lambda: capture.progress.condition is Condition.WAITING)
            assert "is being made by another process" in capture.progress.failure
            holder.commit()
            maker.join()
            eventually(lambda: capture.progress.condition is Condition.FOLLOWING)
    holder.close()
    topic = f"{fresh_name}.public.t"
    assert replayed(cluster.bootstrap, topic) == rows_of(database, "t")
