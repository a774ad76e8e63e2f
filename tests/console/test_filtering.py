"""Which records a filter lets through."""

import json

import pytest

from headrace.console.observing.decoding import Decoder
from headrace.console.observing.filtering import InvalidFilter, parse_filter
from headrace.console.observing.records import RecordSeen


def record(value: object, key: str = "k", partition: int = 0, offset: int = 5) -> RecordSeen:
    decoder = Decoder()
    data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    return RecordSeen(
        "t",
        partition,
        offset,
        0,
        decoder.decode(key.encode()),
        decoder.decode(data),
        (),
        0,
        key.encode(),
        data,
    )


ORDER = {"id": 7, "total": 120.5, "customer": {"name": "Ada"}, "paid": True, "note": None}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ada",
        "total > 100",
        "total <= 120.5",
        "customer.name = Ada",
        "customer.name = ada",
        "customer.name != Grace",
        "customer.name ~ ^A",
        "paid = true",
        "note = null",
        "key = k",
        "offset >= 5",
        "partition = 0",
        'customer.name = "Ada"',
    ],
)
def test_a_record_is_wanted(text: str) -> None:
    assert parse_filter(text)(record(ORDER))


@pytest.mark.parametrize(
    "text",
    [
        "grace",
        "total > 200",
        "customer.name = Grace",
        "customer.name ~ ^G",
        "missing = 1",
        "missing != 1",
        "customer > 1",
        "offset < 5",
        "paid > 0",
    ],
)
def test_a_record_is_not_wanted(text: str) -> None:
    assert not parse_filter(text)(record(ORDER))


def test_of_a_change_the_row_is_meant() -> None:
    change = {"op": "d", "source": {}, "before": {"id": 7, "status": "new"}, "after": None}
    assert parse_filter("status = new")(record(change))
    assert parse_filter("before.status = new")(record(change))


@pytest.mark.parametrize(("text", "said"), [("total > many", "is none"), ("a ~ (", "expression")])
def test_what_cannot_be_understood_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidFilter, match=said):
        parse_filter(text)


def test_words_are_looked_for_in_text_that_is_no_json() -> None:
    assert parse_filter("hello world")(record("Hello World, says a record"))
