"""A standby that takes over: with the slot of the capture, and without."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headrace import Broker
from headrace.capture import PositionLost
from tests.capture.conftest import Database
from tests.capture.replaying import eventually, replayed, rows_of, values_of
from tests.capture.servers import PostgresServer
from tests.capture.starting import capture, following

STANDBY = "standby"

Start = Callable[..., PostgresServer]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers of the test's own."""
    with ExitStack() as resources:

        def start(primary: PostgresServer | None = None, **settings: str) -> PostgresServer:
            server = PostgresServer(primary, **settings)
            resources.callback(server.remove)
            server.start()
            return server

        yield start


def with_rows(server: PostgresServer) -> Database:
    database = Database(server, "postgres")
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    database.run("INSERT INTO t SELECT i, i FROM generate_series(1, 100) i")
    return database


def topic_of(prefix: str) -> str:
    return f"{prefix}.public.t"


def received_all(primary: Database, standby: Database) -> bool:
    ((written,),) = primary.run("SELECT pg_current_wal_lsn()::text")
    return bool(standby.run("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written)[0][0])


def test_a_synchronized_slot_is_gone_on_from(
    postgres: PostgresServer, start: Start, broker: Broker, fresh_name: str
) -> None:
    if postgres.version < 17:
        pytest.skip("standbys keep slots up to date from version 17 on")
    # What the standby does not have yet is not captured either.
    primary = start(synchronized_standby_slots=f"'{STANDBY}'")
    database = with_rows(primary)
    database.run("SELECT pg_create_physical_replication_slot(%s, true)", STANDBY)
    standby = start(
        primary,
        primary_slot_name=f"'{STANDBY}'",
        hot_standby_feedback="on",
        sync_replication_slots="on",
        synchronized_standby_slots="''",
    )
    follower = Database(standby, "postgres")
    with capture(primary.url(), broker, fresh_name) as running:
        eventually(lambda: following(running))
        database.run("UPDATE t SET n = n + 1 WHERE id <= 10")

        def is_synchronized() -> bool:
            # Slots move on with what the server writes now and then about its transactions.
            database.run("SELECT pg_log_standby_snapshot()")
            slots = "SELECT 1 FROM pg_replication_slots WHERE synced AND NOT temporary"
            return bool(follower.run(slots))

        eventually(is_synchronized, 90)
        database.run("DELETE FROM t WHERE id > 95")
        eventually(lambda: running.progress.changes == 15)
        eventually(lambda: received_all(database, follower))
    database.close()
    primary.stop("immediate")
    standby.promote()
    follower.run("INSERT INTO t VALUES (1000, 0)")
    with capture(standby.url(), broker, fresh_name) as running:
        wanted = rows_of(follower, "t")
        eventually(lambda: following(running))
        eventually(lambda: replayed(broker.bootstrap, topic_of(fresh_name)) == wanted)
    told = [each["op"] for each in values_of(broker.bootstrap, topic_of(fresh_name)) if each]
    assert [told.count(op) for op in "rcudt"] == [100, 1, 10, 5, 0], "it did not simply go on"
    follower.close()


def test_a_slot_that_was_left_behind_is_named_and_repaired(
    start: Start, broker: Broker, fresh_name: str
) -> None:
    primary = start()
    database = with_rows(primary)
    standby = start(primary)
    follower = Database(standby, "postgres")
    with capture(primary.url(), broker, fresh_name) as running:
        eventually(lambda: following(running))
        database.run("UPDATE t SET n = n + 1 WHERE id <= 10")
        eventually(lambda: running.progress.changes == 10)
        # Rows that go while nobody looks are the ones that a new snapshot must not leave.
        eventually(lambda: received_all(database, follower))
    database.close()
    primary.stop("immediate")
    standby.promote()
    follower.run("DELETE FROM t WHERE id > 50")
    with pytest.raises(PositionLost, match="a failover left it behind"):
        capture(standby.url(), broker, fresh_name).run()
    with capture(standby.url(), broker, fresh_name, lost="snapshot") as running:
        eventually(lambda: following(running))
        eventually(
            lambda: replayed(broker.bootstrap, topic_of(fresh_name)) == rows_of(follower, "t")
        )
    follower.close()
