"""The binary log as events: what a real server tells, and from where it goes on."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pymysql
import pytest

from headrace.capture.changes import (
    Commit,
    Event,
    Op,
    RowChange,
    SchemaChange,
    TableDropped,
    TableName,
    Truncate,
    Watermark,
)
from headrace.capture.errors import DatabaseUnreachable, InvalidCapture, NotPrepared, PositionLost
from headrace.capture.mariadb import MariadbSource
from headrace.capture.mariadb.stream import MariadbStream
from headrace.capture.selection import Selection
from headrace.capture.source import KeyRange
from tests.capture.mariadb.conftest import Shop

Sources = Callable[..., MariadbSource]


@pytest.fixture
def source(shop: Shop) -> Iterator[Sources]:
    """Makes sources of the database, and closes them."""
    made: list[MariadbSource] = []

    def make(*tables: str, **options: Any) -> MariadbSource:
        made.append(MariadbSource(shop.url, shop.name, Selection(tables or ("*",), **options)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def told(stream: MariadbStream, source: MariadbSource) -> list[Event]:
    """Everything that is in the log by now, without the mark by which its end is known."""
    reader = source.reader()
    mark = f"end {time.monotonic_ns()}"
    reader.mark(mark)
    events: list[Event] = []
    deadline = time.monotonic() + 30
    while not any(isinstance(each, Watermark) and each.id == mark for each in events):
        assert time.monotonic() < deadline, events
        events += stream.read(0.5)
    reader.close()
    return events


def changes(stream: MariadbStream, source: MariadbSource) -> list[tuple[Any, ...]]:
    return [
        (each.op, each.before, each.after)
        for each in told(stream, source)
        if isinstance(each, RowChange)
    ]


def opened(source: MariadbSource) -> MariadbStream:
    return source.open(source.prepare(None))


def test_transactions_are_told_whole_and_in_order(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20))")
    stream = opened(one := source("t"))
    for sql in (
        "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
        "BEGIN",
        "UPDATE t SET a = 'b' WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 2",
        "SAVEPOINT s",
        "DELETE FROM t",
        "ROLLBACK TO s",
        "COMMIT",
        "BEGIN",
        "DELETE FROM t",
        "ROLLBACK",
        "DELETE FROM t WHERE id = 1",
    ):
        shop.run(sql)
    events = told(stream, one)
    commits = [each for each in events if isinstance(each, Commit)]
    assert len({each.position for each in commits}) == len(commits)
    assert [(e.op, e.before, e.after) for e in events if isinstance(e, RowChange)] == [
        (Op.INSERT, None, (1, "a")),
        (Op.INSERT, None, (2, None)),
        (Op.UPDATE, (1, "a"), (1, "b")),
        (Op.UPDATE, (2, None), (3, None)),
        (Op.DELETE, (1, "b"), None),
    ]
    stream.close()


def test_a_stream_goes_on_behind_the_commit_it_is_opened_at(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    stream = opened(one := source("t"))
    shop.run("INSERT INTO t VALUES (1)")
    events = told(stream, one)
    place = next(n for n, each in enumerate(events) if isinstance(each, RowChange))
    first = events[place + 1]
    assert isinstance(first, Commit)
    shop.run("FLUSH BINARY LOGS")
    shop.run("INSERT INTO t VALUES (2)")
    stream.close()
    again = one.open(first.position)
    assert changes(again, one) == [(Op.INSERT, None, (2,))]
    again.close()


TYPES: dict[str, list[Any]] = {
    "tinyint": [-128, 127],
    "tinyint unsigned": [0, 255],
    "smallint": [-32768],
    "smallint unsigned": [65535],
    "mediumint": [-8388608, 8388607],
    "mediumint unsigned": [16777215],
    "int": [-(2**31)],
    "int unsigned": [2**32 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "bigint unsigned": [2**64 - 1],
    "decimal(65,30)": [Decimal("-" + "9" * 35 + "." + "1" * 30), Decimal(f"0.{'0' * 29}1")],
    "decimal(5,0)": [Decimal(-12345), Decimal(0)],
    "decimal(4,4)": [Decimal("-0.0001"), Decimal("0.9999")],
    "float": [1.1, -3.4e38, 16777216.0],
    "double": [0.1 + 0.2, 5e-324, -1.7976931348623157e308],
    "bit(1)": [b"\x00", b"\x01"],
    "bit(12)": [b"\x34\x0a"],
    "year": [1901, 2155, 0],
}
PRINTED: dict[str, list[tuple[Any, Any]]] = {
    "date": [("1000-01-01", -354285), ("9999-12-31", 2932896), ("0000-00-00", None)],
    "time": [("-838:59:59", -3020399000000), ("12:00:01", 43201000000)],
    "time(6)": [("-00:00:00.000001", -1), ("838:59:58.999999", 3020398999999)],
    "time(1)": [("-01:00:00.5", -3600500000)],
    "time(3)": [("-00:00:01.001", -1001000)],
    "datetime": [("9999-12-31 23:59:59", 253402300799000000), ("0000-00-00 00:00:00", None)],
    "datetime(1)": [("1970-01-01 00:00:00.1", 100000)],
    "datetime(6)": [("1000-01-01 00:00:00.000001", -30610223999999999)],
    "timestamp(3) null": [("2038-01-19 03:14:07.999", 2147483647999000)],
    "enum('a','it''s','ö')": [("it's", "it's"), ("ö", "ö")],
    "set('x','y','z')": [("x,z", "x,z"), ("", "")],
    "char(5)": [("ab", "ab"), ("€😀", "€😀")],
    "varchar(300)": [("x" * 300, "x" * 300), ("", "")],
    "varchar(20) character set latin1": [("é€", "é€")],
    "varchar(20) character set utf16": [("é😀", "é😀")],
    "varchar(20) character set sjis": [("日本", "日本")],
    "text": [("y" * 3000, "y" * 3000)],
    "longtext": [("z", "z")],
    "json": [('{"a": [1, null, "ü"]}', '{"a": [1, null, "ü"]}')],
    "binary(4)": [(b"a\x00", b"a\x00\x00\x00")],
    "varbinary(9)": [(b"\xff\x00", b"\xff\x00")],
    "blob": [(b"\x00" * 300, b"\x00" * 300)],
    "uuid": [("123e4567-e89b-12d3-a456-426655440000",) * 2],
    "inet6": [("2001:db8::ff00:42:8329",) * 2, ("::",) * 2],
    "inet4": [("192.0.2.0",) * 2],
}


def test_values_of_every_type_are_the_same_in_the_log_and_in_chunks(
    shop: Shop, source: Sources
) -> None:
    columns: list[tuple[str, list[tuple[Any, Any]]]] = [
        *((kind, [(value, value) for value in values]) for kind, values in TYPES.items()),
        *PRINTED.items(),
    ]
    for place, (kind, values) in enumerate(columns):
        if kind.startswith("bit"):
            columns[place] = (
                kind,
                [(int.from_bytes(given, "little"), given) for given, _ in values],
            )
    listed = ", ".join(f"c{place} {kind}" for place, (kind, _) in enumerate(columns))
    shop.run(
        f"CREATE TABLE t (id INT PRIMARY KEY, {listed}, v INT AS (id + 1),"
        " s INT AS (id * 2) STORED)"
    )
    stream = opened(one := source("t"))
    shop.run("SET sql_mode = '', time_zone = '+00:00'")
    deepest = max(len(values) for _, values in columns)
    expected = []
    for depth in range(deepest + 1):
        cells: list[Any] = [None if depth >= len(each) else each[depth] for _, each in columns]
        given = [None if each is None else each[0] for each in cells]
        marks = ", ".join("%s" for _ in given)
        names = ", ".join(f"c{place}" for place in range(len(given)))
        shop.run(f"INSERT INTO t (id, {names}) VALUES ({depth}, {marks})", *given)
        told_values = [None if each is None else each[1] for each in cells]
        expected.append((depth, *told_values, depth + 1, depth * 2))
    rows = [after for _, _, after in changes(stream, one)]
    for row, wanted in zip(rows, expected, strict=True):
        for name, found, value in zip(one.tables()[0].names, row, wanted, strict=True):
            assert (found, type(found)) == (value, type(value)), (name, listed)
    reader = one.reader()
    chunk = reader.chunk(TableName(shop.name, "t"), KeyRange(), 100)
    for row, wanted in zip(chunk.rows, expected, strict=True):
        for name, found, value in zip(chunk.table.names, row, wanted, strict=True):
            assert (found, type(found)) == (value, type(value)), (name, listed)
    reader.close()
    stream.close()


def test_dates_that_there_are_not_are_zero_where_something_must_be(
    shop: Shop, source: Sources
) -> None:
    shop.run("SET sql_mode = ''")
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, d DATE NOT NULL, n DATE)")
    stream = opened(one := source("t"))
    shop.run("INSERT INTO t VALUES (1, '2023-00-00', '2023-00-00')")
    assert changes(stream, one) == [(Op.INSERT, None, (1, 0, None))]
    reader = one.reader()
    assert reader.chunk(TableName(shop.name, "t"), KeyRange(), 9).rows == [(1, 0, None)]
    reader.close()
    stream.close()


def test_ddl_is_seen_where_it_happened(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    stream = opened(one := source("*"))
    for sql in (
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD COLUMN a INT DEFAULT 5",
        "INSERT INTO t VALUES (2, 2)",
        "TRUNCATE TABLE t",
        "ALTER TABLE t MODIFY a VARCHAR(9), RENAME COLUMN id TO k",
        "INSERT INTO t VALUES (3, 'three')",
        "/* a remark */ DROP TABLE t",
        "CREATE TABLE t (k BIGINT PRIMARY KEY)",
        "INSERT INTO t VALUES (4)",
    ):
        shop.run(sql)
    events = told(stream, one)
    found: list[Any] = []
    for each in events:
        if isinstance(each, RowChange):
            found.append(each.after)
        elif isinstance(each, (Truncate, TableDropped)):
            found.append(type(each))
    assert found == [(1,), (2, 2), Truncate, (3, "three"), TableDropped, (4,)]
    named = [each.table.names for each in events if isinstance(each, SchemaChange)]
    assert ("id", "a") in named
    assert ("k", "a") in named
    assert named[-1] == ("k",)
    stream.close()


def test_a_table_that_takes_anothers_name_is_to_be_read_anew(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.run("CREATE TABLE _t_new (id INT PRIMARY KEY, a INT)")
    stream = opened(one := source("t"))
    (before,) = one.tables()
    shop.run("RENAME TABLE t TO _t_old, _t_new TO t")
    told(stream, one)
    (after,) = one.tables()
    assert after.native != before.native
    assert after.names == ("id", "a")
    stream.close()


def test_compressed_logs_are_read_too(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, a TEXT)")
    stream = opened(one := source("t"))
    administration = shop.connect()
    with administration.cursor() as cursor:
        cursor.execute("SET GLOBAL log_bin_compress = ON")
        try:
            shop.run("INSERT INTO t VALUES (1, REPEAT('x', 5000))")
            shop.run("UPDATE t SET a = REPEAT('y', 5000)")
            shop.run(f"CREATE TABLE u (id INT) COMMENT '{'c' * 500}'")
        finally:
            cursor.execute("SET GLOBAL log_bin_compress = OFF")
    administration.close()
    found = changes(stream, one)
    assert [after for _, _, after in found] == [(1, "x" * 5000), (1, "y" * 5000)]
    stream.close()


def test_a_row_longer_than_a_packet_is_read(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, a LONGBLOB)")
    shop.run("SET GLOBAL max_allowed_packet = 67108864")
    stream = opened(one := source("t"))
    shop.reconnect()
    shop.run("INSERT INTO t VALUES (1, REPEAT('x', 17000000))")
    ((_, _, (_, value)),) = changes(stream, one)
    assert value == b"x" * 17_000_000
    stream.close()


def test_columns_left_out_masks_and_other_databases(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, card VARCHAR(9), mail VARCHAR(9))")
    stream = opened(one := source("t", without=("card",), masked=("mail",)))
    shop.run("INSERT INTO t VALUES (1, 'x', 'm'), (2, 'x', NULL)")
    expected = [(1, "****"), (2, None)]
    assert [after for _, _, after in changes(stream, one)] == expected
    reader = one.reader()
    assert reader.chunk(TableName(shop.name, "t"), KeyRange(), 9).rows == expected
    reader.close()
    stream.close()


def test_rows_that_fail_the_condition_are_not_told(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, region VARCHAR(9), n INT)")
    shop.run("INSERT INTO t VALUES (1, 'eu', 1), (2, 'us', 1), (3, NULL, 1), (4, 'eu', 1)")
    one = source("t", where={"t": "region = 'eu'"})
    stream = opened(one)
    shop.run("INSERT INTO t VALUES (5, 'eu', 1), (6, 'us', 1)")
    shop.run("UPDATE t SET n = 2")
    shop.run("UPDATE t SET region = 'us' WHERE id = 1")
    shop.run("UPDATE t SET region = 'eu' WHERE id = 2")
    shop.run("DELETE FROM t")
    told = [(op, after and after[0]) for op, _, after in changes(stream, one)]
    assert told == [
        (Op.INSERT, 5),
        *((Op.UPDATE, each) for each in (1, 4, 5)),
        (Op.DELETE, None),
        (Op.INSERT, 2),
        *((Op.DELETE, None) for _ in (2, 4, 5)),
    ]
    shop.run("INSERT INTO t VALUES (1, 'us', 1), (2, 'eu', 1), (3, 'eu', 1)")
    reader = one.reader()
    chunk = reader.chunk(TableName(shop.name, "t"), KeyRange(), 2)
    assert (chunk.rows, chunk.last, chunk.complete) == ([(2, "eu", 1)], ("2",), False)
    reader.close()
    stream.close()


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("BIGINT UNSIGNED", [0, 1, 2**63, 2**64 - 1, 9007199254740993, 9007199254740992]),
        ("VARCHAR(20) COLLATE utf8mb4_general_ci", ["a", "B", "c", "it's", "Ö", "€", "100%"]),
        ("VARBINARY(9)", [b"", b"\x00", b"a", b"A", b"\xff"]),
        ("ENUM('z','y','x','w')", ["z", "y", "x", "w"]),
        ("DATETIME(3)", ["2024-01-01 00:00:00.001", "1999-12-31 23:59:59", "2024-01-01 00:00:00"]),
        ("DECIMAL(30,10)", ["1.5", "-2.0000000001", "12345678901234567890.1"]),
        ("UUID", [f"{each}23e4567-e89b-12d3-a456-42665544000{each}" for each in "1a3f"]),
    ],
)
def test_chunks_have_every_row_once(
    shop: Shop, source: Sources, key: str, values: list[Any]
) -> None:
    shop.run(f"CREATE TABLE t (v INT, k {key}, PRIMARY KEY (k, v))")
    for value in values:
        shop.run("INSERT INTO t VALUES (1, %s), (2, %s)", value, value)
    (one := source("t")).prepare(None)
    reader = one.reader()
    name, low = TableName(shop.name, "t"), None
    found: list[Any] = []
    while True:
        chunk = reader.chunk(name, KeyRange(low), 3)
        found += chunk.rows
        low = chunk.last or low
        if chunk.complete:
            break
    assert len(found) == len(set(found)) == 2 * len(values)
    reader.close()


def test_a_purged_log_is_noticed(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    stream = opened(one := source("t"))
    start = stream.start
    told(stream, one)
    stream.close()
    shop.run("FLUSH BINARY LOGS")
    shop.run("INSERT INTO t VALUES (1)")
    (status,) = shop.run("SHOW MASTER STATUS")
    deadline = time.monotonic() + 60
    while len(shop.run("SHOW BINARY LOGS")) > 1:
        # The server lets go of a file only when the connections that read it have ended.
        for (number,) in shop.run(
            "SELECT id FROM information_schema.PROCESSLIST WHERE command = 'Binlog Dump'"
        ):
            with suppress(pymysql.Error):
                shop.run(f"KILL {number}")
        shop.run(f"PURGE BINARY LOGS TO '{status[0]}'")
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(PositionLost, match="--lost snapshot"):
        one.open(start)


def test_a_position_of_another_server_is_noticed(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    one = source("t")
    one.prepare(None)
    with pytest.raises(PositionLost):
        one.open("0-1-999999999")
    one.drop()
    with pytest.raises(PositionLost, match="not there any more"):
        one.prepare("0-1-5")


def test_xa_and_statements_are_not_told_wrongly(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    stream = opened(one := source("t"))
    for sql in ("XA START 'x'", "INSERT INTO t VALUES (1)", "XA END 'x'", "XA PREPARE 'x'"):
        shop.run(sql)
    with pytest.raises(PositionLost, match="XA"):
        told(stream, one)
    shop.run("XA ROLLBACK 'x'")
    stream.close()
    again = one.open(None)
    shop.run("SET binlog_format = 'STATEMENT'")
    shop.run("INSERT INTO t VALUES (2)")
    with pytest.raises(PositionLost, match="statement"):
        told(again, one)
    again.close()


def test_drop_leaves_nothing_behind(shop: Shop, source: Sources) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    one = source("t")
    one.prepare(None)
    assert one.drop() == [f"table {shop.name}.headrace_{shop.name}"]
    assert shop.run("SHOW TABLES") == [("t",)]
    assert one.drop() == []


def test_what_stands_in_the_way_is_said_in_plain_words(shop: Shop, source: Sources) -> None:
    with pytest.raises(NotPrepared, match="no table matches"):
        source().prepare(None)
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.run("CREATE TABLE n (a INT)")
    shop.run("CREATE TABLE c (id INT PRIMARY KEY, t INT REFERENCES t (id) ON DELETE CASCADE)")
    advice = " ".join(source().check().advice)
    assert "n has no primary key" in advice
    assert f"the foreign key c_ibfk_1 of {shop.name}.c" in advice
    with pytest.raises(InvalidCapture, match="has no column missing"):
        source("t", where={"t": "missing > 1"}).prepare(None)
    with pytest.raises(InvalidCapture, match="has no column t that is told"):
        source("c", where={"c": "t = 1"}, without=("t",)).prepare(None)
    shop.run("CREATE USER poor@'%' IDENTIFIED BY 'secret'")
    shop.run(f"GRANT SELECT ON {shop.name}.* TO poor@'%'")
    shop.run("SET GLOBAL binlog_row_metadata = 'NO_LOG'")
    shop.run("SET GLOBAL binlog_format = 'MIXED'")
    try:
        poor = MariadbSource(
            shop.server.url(shop.name, "poor", "secret"), "poor", Selection(("*",))
        )
        with pytest.raises(NotPrepared) as caught:
            poor.prepare(None)
        said = str(caught.value)
        poor.close()
    finally:
        shop.run("SET GLOBAL binlog_row_metadata = 'FULL'")
        shop.run("SET GLOBAL binlog_format = 'ROW'")
    assert "SET GLOBAL binlog_row_metadata = 'FULL'" in said
    assert "SET GLOBAL binlog_format = 'ROW'" in said
    assert "GRANT REPLICATION SLAVE ON *.* TO 'poor'@'%'" in said
    assert "secret" not in said
    shop.run("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO poor@'%'")
    poor = MariadbSource(shop.server.url(shop.name, "poor", "secret"), "poor", Selection(("*",)))
    with pytest.raises(NotPrepared, match="GRANT CREATE, DROP, SELECT"):
        poor.prepare(None)
    poor.close()
    wrong = MariadbSource(shop.server.url(shop.name, "poor", "no"), "poor", Selection(("*",)))
    with pytest.raises(DatabaseUnreachable, match="did not let us in"):
        wrong.check()
    shop.run("DROP USER poor@'%'")
