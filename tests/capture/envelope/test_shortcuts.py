"""Texts that are written on unread give the bytes that their values would give."""

import itertools
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from headrace.capture.changes import UNAVAILABLE, Column, ColumnType, Table, TableName, TypeKind
from headrace.capture.envelope import Decimals, Intervals, Modes, Times
from headrace.capture.envelope.columns import Columns
from headrace.capture.postgres.values import decoder_of, form_of
from headrace.capture.texts import Reading, Text, TextRow

MODES = [Modes(*each) for each in itertools.product(Decimals, Times, Intervals)]


def decimals(scale: int) -> st.SearchStrategy[str]:
    numbers = st.decimals(-(10**20), 10**20, allow_nan=False, allow_infinity=False, places=scale)
    return numbers.map(lambda value: f"{abs(value):f}" if not value else f"{value:f}")


def moments() -> st.SearchStrategy[str]:
    """As PostgreSQL prints them in UTC."""
    dates = st.dates().map(lambda day: day.isoformat()) | st.sampled_from(
        ["0001-01-01", "9999-12-31", "12026-01-01", "294276-12-31", "0044-03-15"]
    )
    clocks = st.times().map(lambda time: f"{time:%H:%M:%S}")
    fractions = st.sampled_from(["", ".5", ".05", ".123456", ".000001", ".12345"])
    eras = st.sampled_from(["", "", "", " BC"])
    printed = st.tuples(dates, clocks, fractions, eras).map(
        lambda parts: f"{parts[0]} {parts[1]}{parts[2]}+00{parts[3]}"
    )
    return printed | st.sampled_from(["infinity", "-infinity"])


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
wholes = st.integers(-(2**63), 2**63 - 1).map(str)
noughts = st.sampled_from(["NaN", "Infinity", "-Infinity"])

COLUMNS: list[tuple[ColumnType, st.SearchStrategy[str]]] = [
    (ColumnType(TypeKind.INT64, "int8"), wholes),
    (ColumnType(TypeKind.TEXT, "text"), words),
    (ColumnType(TypeKind.JSON, "json"), words),
    (ColumnType(TypeKind.DECIMAL, "numeric(30,2)", 30, 2), decimals(2) | noughts),
    (ColumnType(TypeKind.DECIMAL, "numeric(30,0)", 30, 0), decimals(0) | noughts),
    (ColumnType(TypeKind.DECIMAL, "numeric(30,-2)", 30, -2), st.just("123400") | noughts),
    (ColumnType(TypeKind.DECIMAL, "numeric"), decimals(5) | noughts),
    (ColumnType(TypeKind.DECIMAL, "money", scale=2), st.sampled_from(["$1.50", "-$1,234.50"])),
    (ColumnType(TypeKind.TIMESTAMP_ZONED, "timestamptz"), moments()),
    (ColumnType(TypeKind.TIMESTAMP_ZONED, "timestamptz(6)", 6), moments()),
    (ColumnType(TypeKind.TIMESTAMP_ZONED, "timestamptz(3)", 3), moments()),
    (ColumnType(TypeKind.BOOLEAN, "bool"), st.sampled_from("tf")),
    (ColumnType(TypeKind.FLOAT64, "float8"), st.floats().map(repr)),
    (ColumnType(TypeKind.BYTES, "bytea"), st.binary().map(lambda value: f"\\x{value.hex()}")),
]

TABLE = Table(
    TableName("public", "t"),
    tuple(
        # Not even a percent sign in a name is written twice.
        Column(f'c{place} % "q"', type_, nullable=place % 2 == 0)
        for place, (type_, _) in enumerate(COLUMNS)
    ),
    key=(3, 0),
)
DECODERS = tuple(decoder_of(type_) for type_, _ in COLUMNS)
READING = Reading(DECODERS, tuple(map(form_of, DECODERS)))


@st.composite
def rows(draw: st.DrawFn) -> list[Text]:
    missing = st.sampled_from([None, UNAVAILABLE])
    gaps = draw(st.booleans())
    return [
        draw(missing if gaps and draw(st.booleans()) else texts.map(str.encode))
        for _, texts in COLUMNS
    ]


@given(rows(), st.sampled_from(MODES))
def test_texts_are_written_as_their_values_are(texts: list[Text], modes: Modes) -> None:
    row = TextRow(texts, READING, whole=all(isinstance(text, bytes) for text in texts))
    values: tuple[Any, ...] = tuple(row)
    for places in (None, TABLE.key):
        columns = Columns(TABLE, modes, places)
        assert columns.written(row) == columns.written(values) == orjson.dumps(columns.of(values))
    columns = Columns(TABLE, modes)
    assert columns.written(row, former=True) == columns.written(values, former=True)


def test_a_row_of_texts_is_equal_to_the_row_of_its_values() -> None:
    reading = Reading((int, bytes.decode), (form_of(int), form_of(bytes.decode)))
    row = TextRow([b"7", None], reading, whole=False)
    assert row == (7, None)
    assert (row[0], row[1:], len(row), hash(row)) == (7, (None,), 2, hash((7, None)))
    assert row != (7, "x")
    assert row != [7, None]
