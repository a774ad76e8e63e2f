"""Raw bytes and text, the choice of a format, and dead letters."""

import pyarrow as pa
import pytest

from headrace.records.arrow import RECORD_SCHEMA
from headrace.streams.formats import (
    UnknownFormat,
    UnusableSchema,
    arrow_schema,
    decoder,
    row_schema,
)
from headrace.streams.formats.dead_letters import dead_letter_schema, dead_letters
from headrace.streams.formats.decoding import Rejected
from tests.streams.formats.batches import BEGAN, batch, decode


def test_raw_records_are_untouched():
    records = batch([b"\xff", None], [None, b"key"])
    decoded = decoder("raw", row_schema("raw", None, {}), {}).decode(records)
    assert decoded.rows.to_pylist() == [
        {"key": None, "value": b"\xff"},
        {"key": b"key", "value": None},
    ]
    assert decoded.accepted is None


def test_text_must_be_utf8():
    decoded = decode("text", None, ["é".encode(), b"ab\xff", None])
    assert decoded.rows.to_pylist() == [{"value": "é"}]
    assert decoded.rejected[0] == (1, "not in UTF-8, from byte 2 on")
    assert decoded.rejected[1].reason.startswith("no value")


def test_raw_with_another_schema_is_refused():
    with pytest.raises(UnusableSchema, match="key binary, value binary"):
        decoder("raw", row_schema("raw", "id int", {}), {})


def test_an_unknown_format_is_refused_with_those_there_are():
    with pytest.raises(UnknownFormat, match="json"):
        row_schema("yaml", "id int", {})


def test_json_needs_a_schema():
    with pytest.raises(UnusableSchema, match="needs a schema"):
        row_schema("json", None, {})


def test_an_option_has_the_values_that_it_can_have():
    with pytest.raises(UnknownFormat, match="tombstones='maybe': choose one of reject, skip, null"):
        decode("json", "id int", [], tombstones="maybe")


def test_dead_letters_keep_what_they_were_and_say_why():
    kind = RECORD_SCHEMA.field("headers").type
    records = batch([b"a", b"b", None, b"d"], [b"1", None, b"3", b"4"])
    own = [[], [{"key": "x", "value": b"y"}], [], [{"key": "p", "value": None}]]
    records = records.set_column(4, RECORD_SCHEMA.field("headers"), pa.array(own, kind))
    rejected = [Rejected(1, "no é"), Rejected(2, "no value")]
    letters = dead_letters(records, rejected, "orders", 3)
    letters.validate(full=True)
    assert letters.schema == arrow_schema(dead_letter_schema())
    first, second = letters.to_pylist()
    assert (first["key"], first["value"]) == (None, b"b")
    assert (second["key"], second["value"]) == (b"3", None)
    assert [(header["key"], header["value"]) for header in first["headers"]] == [
        ("x", b"y"),
        ("headrace.reason", "no é".encode()),
        ("headrace.topic", b"orders"),
        ("headrace.partition", b"3"),
        ("headrace.offset", b"1"),
        ("headrace.timestamp", str(BEGAN + 1).encode()),
    ]
    assert [header["value"] for header in second["headers"]] == [
        b"no value",
        b"orders",
        b"3",
        b"2",
        str(BEGAN + 2).encode(),
    ]


def test_there_may_be_no_dead_letters():
    assert dead_letters(batch([b"a"]), [], "orders", 0).num_rows == 0
