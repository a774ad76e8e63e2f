"""Random values of every kind come back as they went in, through the log and through chunks."""

import datetime
import string
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.capture.changes import TableName
from headrace.capture.source import KeyRange
from tests.capture.conftest import Database
from tests.capture.postgres.reading import changes_in, committed, events_until, source_of

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp without a zone
UTC_EPOCH = EPOCH.replace(tzinfo=datetime.UTC)

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
nasty = st.text(st.sampled_from("\\\t\n\r\b\f\v\"'{},NULL " + string.ascii_letters), max_size=12)
wholes = st.integers(-(2**63), 2**63 - 1)
moments = st.datetimes(
    min_value=datetime.datetime(1, 1, 2),  # noqa: DTZ001
    max_value=datetime.datetime(9999, 12, 30),  # noqa: DTZ001
)
decimals = st.decimals(-(10**30), 10**30, allow_nan=False, allow_infinity=False)
rows = st.tuples(
    wholes,
    st.none() | st.floats(allow_nan=False, width=64),
    st.none() | decimals,
    st.none() | texts | nasty,
    st.none() | st.binary(max_size=20),
    st.none() | st.dates(),
    st.none() | moments,
    st.none() | moments,
    st.none() | st.lists(st.none() | texts | nasty, max_size=4),
    st.none() | st.lists(st.none() | wholes, max_size=4),
    st.booleans(),
)
COLUMNS = (
    "w bigint, f float8, d numeric, t text, b bytea, day date, s timestamp, z timestamptz,"
    " ts text[], ws bigint[], yes boolean"
)


def neutral(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a row is in neutral words."""
    w, f, d, t, b, day, s, z, ts, ws, yes = row
    microsecond = datetime.timedelta(microseconds=1)
    return (
        *(w, f, d, t, b),
        None if day is None else (day - EPOCH.date()).days,
        None if s is None else (s - EPOCH) // microsecond,
        None if z is None else (z.replace(tzinfo=datetime.UTC) - UTC_EPOCH) // microsecond,
        *(ts, ws, yes),
    )


def literal(row: tuple[Any, ...]) -> list[Any]:
    """What the driver is given for a row."""
    w, f, d, t, b, day, s, z, *rest = row
    return [w, f, d, t, b, day, s, None if z is None else z.replace(tzinfo=datetime.UTC), *rest]


def test_random_rows(database: Database) -> None:
    database.run(f"CREATE TABLE t (id serial PRIMARY KEY, {COLUMNS})")
    source = source_of(database.url)
    stream, reader = source.open(None), source.reader()
    events_until(stream, committed(0))

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(rows, min_size=1, max_size=12))
    def check(given_rows: list[tuple[Any, ...]]) -> None:
        database.run("DELETE FROM t")
        values = ", ".join(f"({', '.join(['%s'] * 11)})" for _ in given_rows)
        names = "w, f, d, t, b, day, s, z, ts, ws, yes"
        arguments = [each for row in given_rows for each in literal(row)]
        database.run(f"INSERT INTO t ({names}) VALUES {values}", *arguments)
        inserted: list[Any] = []
        while len(inserted) < len(given_rows):
            events = events_until(stream, lambda events: bool(changes_in(events)))
            inserted += [each.after for each in changes_in(events) if each.after is not None]
        wanted = [neutral(row) for row in given_rows]
        assert [row[1:] for row in inserted] == wanted
        chunk = reader.chunk(TableName("public", "t"), KeyRange(), 100)
        assert [row[1:] for row in chunk.rows] == wanted

    check()
    reader.close()
    stream.close()
