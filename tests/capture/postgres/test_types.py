"""Every type of PostgreSQL: what the log tells and what a chunk tells is the same, and this."""

from decimal import Decimal
from math import inf, isnan
from typing import Any

import pytest

from headrace.capture.changes import Interval, TableName, TypeKind
from headrace.capture.envelope import Decimals, Intervals, Modes, Times
from headrace.capture.envelope.columns import Columns
from headrace.capture.postgres.temporal import INFINITE_INTERVAL
from headrace.capture.source import KeyRange
from tests.capture.conftest import Database
from tests.capture.postgres.reading import changes_in, committed, events_until, source_of

DAY = 86_400_000_000
CASES: list[tuple[Any, ...]] = [
    # type, literal, neutral value, as Debezium writes it
    ("boolean", "true", True, True),
    ("smallint", "-32768", -32768, -32768),
    ("int", "2147483647", 2147483647, 2147483647),
    ("bigint", "-9223372036854775808", -(2**63), -(2**63)),
    ("oid", "4294967295", 4294967295, 4294967295),
    ("real", "1.5", 1.5, 1.5),
    ("double precision", "1e308", 1e308, 1e308),
    ("double precision", "'-Infinity'", -inf, "-Infinity"),
    ("numeric(10,2)", "-12345678.90", Decimal("-12345678.90"), "tmn9Lg=="),
    ("numeric", "3.14159", Decimal("3.14159"), {"scale": 5, "value": "BMsv"}),
    ("numeric(5,-2)", "123456", Decimal(123500), "BNM="),
    ("money", "-1234.5", Decimal("-1234.50"), "/h3G"),
    ("text", "E'a\\tb\\n\\\\ \"q\" ü 😀'", 'a\tb\n\\ "q" ü 😀', 'a\tb\n\\ "q" ü 😀'),
    ("text", "''", "", ""),
    ("text", "'\\N'", "\\N", "\\N"),
    ("varchar(5)", "'abc'", "abc", "abc"),
    ("char(5)", "'abc'", "abc  ", "abc  "),
    ('"char"', "'x'", "x", "x"),
    ("name", "'abc'", "abc", "abc"),
    ("bytea", r"'\x00ff10'", b"\x00\xff\x10", "AP8Q"),
    ("bit(1)", "B'1'", b"\x01", True),
    ("bit(12)", "B'101010101010'", b"\xaa\x0a", "qgo="),
    ("bit varying", "B'11'", b"\x03", "Aw=="),
    ("date", "'2026-11-18'", 20775, 20775),
    ("date", "'0044-03-15 BC'", -735160, -735160),
    ("date", "'infinity'", inf, 2147483647),
    ("time", "'04:05:06.789012'", 14706789012, 14706789012),
    ("time(3)", "'04:05:06.789'", 14706789000, 14706789),
    ("time", "'24:00'", DAY, DAY),
    ("timetz", "'04:05:06.789+02'", 7506789000, "02:05:06.789Z"),
    ("timestamp", "'1969-12-31 23:59:59.999999'", -1, -1),
    ("timestamp(3)", "'1970-01-01 00:00:00.5'", 500_000, 500),
    ("timestamp", "'294276-12-31 23:59:59.999999'", 9224318015999999999, 9224318015999999999),
    ("timestamp", "'4713-01-01 00:00 BC'", -210863520000000000, -210863520000000000),
    ("timestamp", "'-infinity'", -inf, -9223372036832400000),
    ("timestamptz", "'2026-11-18 01:00+02'", 1794956400000000, "2026-11-17T23:00:00.000000Z"),
    ("timestamptz(0)", "'2026-11-18 01:00+02'", 1794956400000000, "2026-11-17T23:00:00Z"),
    ("timestamptz", "'12026-01-01 00:00Z'", 317336745600000000, "+12026-01-01T00:00:00.000000Z"),
    ("timestamptz", "'infinity'", inf, "infinity"),
    (
        "interval",
        "'1 year 2 mons -3 days 04:05:06.789'",
        Interval(14, -3, 14706789000),
        36572706789000,
    ),
    ("interval", "'infinity'", INFINITE_INTERVAL, 2**63 - 1),
    ("interval", "'-infinity'", Interval(*(-each for each in INFINITE_INTERVAL)), -(2**63)),
    (
        "uuid",
        "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
        *["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"] * 2,
    ),
    ("json", "'{\"a\":  1}'", '{"a":  1}', '{"a":  1}'),
    ("jsonb", '\'{"b":1,"a":  [null]}\'', '{"a": [null], "b": 1}', '{"a": [null], "b": 1}'),
    # Half a character: JSON allows it, and texts do not.
    ("json", r"""'"\ud800"'""", r'"\ud800"', r'"\ud800"'),
    ("inet", "'10.0.0.1/8'", "10.0.0.1/8", "10.0.0.1/8"),
    ("macaddr", "'08:00:2b:01:02:03'", "08:00:2b:01:02:03", "08:00:2b:01:02:03"),
    ("int4range", "'[1,5)'", "[1,5)", "[1,5)"),
    ("tstzrange", "'[2026-01-01 00:00Z,)'", *['["2026-01-01 00:00:00+00",)'] * 2),
    ("int4multirange", "'{[1,2),[5,7)}'", "{[1,2),[5,7)}", "{[1,2),[5,7)}"),
    (
        "point",
        "'(1.5,-2)'",
        (1.5, -2.0),
        {"x": 1.5, "y": -2.0, "wkb": "AQEAAAAAAAAAAAD4PwAAAAAAAADA", "srid": None},
    ),
    ("mood", "'so so'", "so so", "so so"),
    ("positive", "7", 7, 7),
    ("int[]", "'{1,NULL,3}'", [1, None, 3], [1, None, 3]),
    ("int[]", "'{{1,2},{3,4}}'", [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    (
        "text[]",
        """ARRAY['a,b', 'c"d', '', NULL, 'NULL', 'e\\f']""",
        *[["a,b", 'c"d', "", None, "NULL", "e\\f"]] * 2,
    ),
    ("mood[]", "ARRAY['so so']::mood[]", ["so so"], ["so so"]),
    ("numeric(4,1)[]", "'{1.5,-2.0}'", [Decimal("1.5"), Decimal("-2.0")], ["Dw==", "7A=="]),
    (
        "timestamptz[]",
        "'{2026-11-18 01:00+02}'",
        [1794956400000000],
        ["2026-11-17T23:00:00.000000Z"],
    ),
    ("bytea[]", r"""'{"\\x00ff"}'""", [b"\x00\xff"], ["AP8="]),
    ("box[]", "'{(1,1),(0,0);(2,2),(1,1)}'", *[["(1,1),(0,0)", "(2,2),(1,1)"]] * 2),
    ("tsvector", "'a:1 b:2'", "'a':1 'b':2", "'a':1 'b':2"),
    ("cidr", "'10.0.0.0/8'", "10.0.0.0/8", "10.0.0.0/8"),
]


def since(type_: str, literal: str) -> int:
    """The version from which on a literal of a type means something."""
    if type_ == "interval" and "infinity" in literal:
        return 17
    return 15 if type_ == "numeric(5,-2)" else 14


def test_values_have_full_fidelity_in_the_log_and_in_chunks(database: Database) -> None:
    cases = [case for case in CASES if database.version >= since(*case[:2])]
    database.run("CREATE TYPE mood AS ENUM ('sad', 'so so', 'happy')")
    database.run("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    columns = ", ".join(f"c{place} {type_}" for place, (type_, *_) in enumerate(cases))
    database.run(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    source = source_of(database.url)
    stream = source.open(None)
    literals = ", ".join(literal for _, literal, *_ in cases)
    database.run(f"INSERT INTO t VALUES (1, {literals})")
    database.run("INSERT INTO t (id) VALUES (2)")
    full, empty = changes_in(events_until(stream, committed(2)))
    reader = source.reader()
    chunk = reader.chunk(TableName("public", "t"), KeyRange(), 10)
    reader.close()
    stream.close()
    assert full.after is not None
    assert full.table.says_the_same(chunk.table)
    written = Columns(full.table, Modes()).of(full.after)
    for place, (type_, literal, neutral, debezium) in enumerate(cases):
        assert full.after[place + 1] == neutral, (type_, literal)
        assert written[f"c{place}"] == debezium, (type_, literal)
    assert [tuple(row) for row in chunk.rows] == [full.after, empty.after]
    assert empty.after == (2, *[None] * len(cases))


def test_numbers_that_are_none(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, f float8, n numeric, m numeric(5,1))")
    source = source_of(database.url)
    stream = source.open(None)
    database.run("INSERT INTO t VALUES (1, 'NaN', 'NaN', 'NaN'), (2, 0, 'Infinity', 0)")
    first, second = changes_in(events_until(stream, committed(1)))
    stream.close()
    assert first.after is not None
    assert second.after is not None
    assert isnan(first.after[1])
    assert first.after[2].is_nan()
    precise, words = (
        Columns(first.table, Modes(each)) for each in (Decimals.PRECISE, Decimals.STRING)
    )
    assert precise.of(first.after) == {"id": 1, "f": "NaN", "n": None, "m": None}
    assert words.of(first.after) == {"id": 1, "f": "NaN", "n": "NaN", "m": "NaN"}
    assert words.of(second.after)["n"] == "Infinity"


def test_types_are_described_in_neutral_words(database: Database) -> None:
    database.run("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    database.run("CREATE TABLE t (id int PRIMARY KEY, m mood NOT NULL, n numeric(10,2), a int[])")
    (table,) = source_of(database.url).tables()
    id_, mood, number, array = table.columns
    assert (id_.nullable, mood.nullable, number.nullable) == (False, False, True)
    assert (mood.type.kind, mood.type.members) == (TypeKind.ENUM, ("sad", "happy"))
    assert (number.type.precision, number.type.scale) == (10, 2)
    assert array.type.element is not None
    assert (array.type.name, array.type.element.kind) == ("int4[]", TypeKind.INT32)


def test_extensions_are_known_by_their_types_names(database: Database) -> None:
    database.run("CREATE EXTENSION hstore")
    database.run("CREATE TABLE t (id int PRIMARY KEY, h hstore)")
    stream = source_of(database.url).open(None)
    database.run("""INSERT INTO t VALUES (1, 'a=>1, "b c"=>NULL')""")
    (change,) = changes_in(events_until(stream, committed(1)))
    stream.close()
    assert change.after == (1, {"a": "1", "b c": None})


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (
            Modes(Decimals.STRING, Times.ISO, Intervals.STRING),
            {
                "n": "12.50",
                "d": "2026-11-18",
                "t": "04:05:06",
                "s": "2026-11-18T01:02:03",
                "i": "P0Y0M1DT0H0M0S",
            },
        ),
        (
            Modes(Decimals.DOUBLE),
            {"n": 12.5, "d": 20775, "t": 14706000000, "s": 1794963723000000, "i": 86400000000},
        ),
    ],
)
def test_people_choose_how_numbers_and_times_are_written(
    database: Database, modes: Modes, expected: dict[str, Any]
) -> None:
    database.run(
        "CREATE TABLE t"
        " (n numeric(5,2), d date, t time, s timestamp, i interval, id int PRIMARY KEY)"
    )
    stream = source_of(database.url).open(None)
    database.run(
        "INSERT INTO t VALUES (12.5, '2026-11-18', '04:05:06', '2026-11-18 01:02:03', '1 day', 1)"
    )
    (change,) = changes_in(events_until(stream, committed(1)))
    stream.close()
    assert change.after is not None
    assert Columns(change.table, modes).of(change.after) == {**expected, "id": 1}
