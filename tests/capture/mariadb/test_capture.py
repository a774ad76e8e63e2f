"""A capture from MariaDB into a broker: Debezium's envelope, and a server that goes away."""

from headrace import Broker
from headrace.capture import Condition
from tests.capture.mariadb.conftest import Shop, administer
from tests.capture.mariadb.server import MariadbServer
from tests.capture.replaying import eventually, records_of, values_of
from tests.capture.starting import capture, following, items


def test_records_are_debeziums(shop: Shop, broker: Broker, fresh_name: str) -> None:
    shop.run(
        "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, d DECIMAL(5,2), at TIMESTAMP(3) NULL,"
        " t TIME, dt DATETIME, b BIT(1), e ENUM('x','y'), u BIGINT UNSIGNED)"
    )
    row = "1.50, '2026-11-18 01:02:03.004', '-01:00:00', '2026-11-18 00:00:00', 1, 'y', 5"
    shop.run("SET time_zone = '+00:00'")
    shop.run(f"INSERT INTO t VALUES (1, {row})")
    with capture(shop.url, broker, fresh_name, schemas=True) as running:
        eventually(lambda: following(running))
        shop.run(f"INSERT INTO t VALUES (2, {row})")
        shop.run("DELETE FROM t WHERE id = 2")
        topic = f"{fresh_name}.{shop.name}.t"
        eventually(lambda: len(values_of(broker.bootstrap, topic)) == 4)
    read, insert, delete, tombstone = values_of(broker.bootstrap, topic)
    values = {
        "d": "AJY=",
        "at": "2026-11-18T01:02:03.004Z",
        "t": -3600000000,
        "dt": 1794960000000,
        "b": True,
        "e": "y",
        "u": 5,
    }
    assert read["payload"]["after"] == {"id": 1, **values}
    assert insert["payload"]["after"] == delete["payload"]["before"] == {"id": 2, **values}
    assert tombstone is None
    source = insert["payload"]["source"]
    assert list(source) == [
        *("version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns"),
        *("table", "server_id", "gtid", "file", "pos", "row", "thread", "query"),
    ]
    assert (source["connector"], source["db"], source["server_id"]) == ("mariadb", shop.name, 1)
    assert source["gtid"].startswith("0-1-")
    (described,) = [f for f in insert["schema"]["fields"] if f["field"] == "after"]
    assert [(each["field"], each.get("name", each["type"])) for each in described["fields"]] == [
        ("id", "int64"),
        ("d", "org.apache.kafka.connect.data.Decimal"),
        ("at", "io.debezium.time.ZonedTimestamp"),
        ("t", "io.debezium.time.MicroTime"),
        ("dt", "io.debezium.time.Timestamp"),
        ("b", "boolean"),
        ("e", "io.debezium.data.Enum"),
        ("u", "int64"),
    ]


def test_tables_of_another_database_are_told_with_its_name(
    mariadb: MariadbServer, shop: Shop, broker: Broker, fresh_name: str
) -> None:
    other = f"{shop.name}_other"
    administer(mariadb, f"CREATE DATABASE {other}")
    shop.run(f"CREATE TABLE {other}.t (id INT PRIMARY KEY)")
    shop.run(f"INSERT INTO {other}.t VALUES (1)")
    topic = f"{fresh_name}.{other}.t"
    with capture(shop.url, broker, fresh_name, tables=[f"{other}.t"]):
        eventually(lambda: items(broker, topic) == [(1,)])
    administer(mariadb, f"DROP DATABASE {other}")
    (event,) = values_of(broker.bootstrap, topic)
    assert (event["source"]["db"], event["source"]["table"]) == (other, "t")
    (shape,) = values_of(broker.bootstrap, fresh_name)
    assert (shape["databaseName"], shape["source"]["db"]) == (other, other)


def test_rows_of_an_outbox_are_events_of_topics_that_they_name(
    shop: Shop, broker: Broker, fresh_name: str
) -> None:
    shop.run(
        "CREATE TABLE outbox (id INT PRIMARY KEY, aggregatetype VARCHAR(90),"
        " aggregateid VARCHAR(9), type VARCHAR(9), payload JSON)"
    )
    with capture(shop.url, broker, fresh_name, outbox=("outbox",)) as running:
        eventually(lambda: following(running))
        shop.run("INSERT INTO outbox VALUES (1, %s, '7', 'Placed', '{\"n\": 3}')", fresh_name)
        shop.run("DELETE FROM outbox")
        eventually(lambda: running.progress.changes == 2)
    (event,) = records_of(broker.bootstrap, f"outbox.event.{fresh_name}")
    assert (event.key(), event.value()) == (b"7", b'{"n": 3}')
    assert records_of(broker.bootstrap, f"{fresh_name}.{shop.name}.outbox") == []


def test_a_server_that_is_killed_and_started_again(
    mariadb: MariadbServer, shop: Shop, broker: Broker, fresh_name: str
) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    shop.run("INSERT INTO t VALUES (1, 1)")
    topic = f"{fresh_name}.{shop.name}.t"
    with capture(shop.url, broker, fresh_name) as running:
        eventually(lambda: items(broker, topic) == [(1, 1)])
        mariadb.stop()
        mariadb.start()
        shop.reconnect()
        shop.run("INSERT INTO t VALUES (2, 2)")
        eventually(lambda: items(broker, topic) == [(1, 1), (2, 2)])
        assert running.progress.condition is not Condition.FAILED


def test_a_table_that_takes_anothers_name_is_read_anew(
    shop: Shop, broker: Broker, fresh_name: str
) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    shop.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    topic = f"{fresh_name}.{shop.name}.t"
    with capture(shop.url, broker, fresh_name, tables=["t", "later"]) as running:
        eventually(lambda: following(running))
        shop.run("CREATE TABLE _new (id INT PRIMARY KEY, b VARCHAR(9))")
        shop.run("INSERT INTO _new VALUES (2, 'two'), (3, 'three')")
        shop.run("RENAME TABLE t TO _old, _new TO t")
        eventually(lambda: items(broker, topic) == [(2, "two"), (3, "three")])
        shop.run("UPDATE t SET b = 'drei' WHERE id = 3")
        shop.run("CREATE TABLE later (id INT PRIMARY KEY)")
        shop.run("INSERT INTO later VALUES (1)")
        eventually(lambda: items(broker, topic) == [(2, "two"), (3, "drei")])
        eventually(lambda: items(broker, f"{fresh_name}.{shop.name}.later") == [(1,)])
