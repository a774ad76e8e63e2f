"""The JSON form of a record: what goes out comes back."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.record_json import OutgoingRecord, decode_record, encode_record
from tests.cli.messages import FakeMessage

BYTES = st.none() | st.binary() | st.text().map(str.encode)


def encoded(message: FakeMessage) -> bytes:
    return encode_record(cast(Any, message))


@given(value=BYTES, key=BYTES, headers=st.lists(st.tuples(st.text(), BYTES)))
def test_any_record_survives_the_way_out_and_back(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]]
):
    line = encoded(FakeMessage(value, key, headers))
    assert b"\n" not in line
    back = decode_record(line)
    assert (same(back.value, value), same(back.key, key)) == (True, True)
    assert back.headers == headers
    assert back.timestamp == 1_700_000_000_123


def same(left: bytes | None, right: bytes | None) -> bool:
    """Equal, but for blanks and digits in a JSON document, which are not kept."""
    if left is not None and right is not None and right[:1] in (b"{", b"["):
        try:
            return bool(json.loads(left) == json.loads(right))
        except ValueError:
            pass
    return left == right


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).filter(lambda document: isinstance(document, dict | list))
)
def test_a_json_document_appears_as_such_or_as_text(document: object):
    line = json.loads(encoded(FakeMessage(json.dumps(document, indent=1).encode())))
    shown = line["value"]
    assert shown == document or json.loads(shown) == document


def test_the_line_says_everything_about_the_record():
    message = FakeMessage(b'{"total": 12.50}', b"user-7", [("trace", b"8c1f"), ("trace", None)])
    assert encoded(message) == (
        b'{"topic":"orders","partition":3,"offset":41,"timestamp":"2023-11-14T22:13:20.123Z",'
        b'"key":"user-7","value":{"total": 12.50},"headers":[["trace","8c1f"],["trace",null]]}'
    )


def test_a_record_without_time_has_none():
    assert json.loads(encoded(FakeMessage(milliseconds=-1)))["timestamp"] is None


def test_a_document_that_looks_like_our_binary_form_stays_text():
    document = b'{"base64": "AAAA"}'
    line = encoded(FakeMessage(document))
    assert json.loads(line)["value"] == document.decode()
    assert decode_record(line).value == document


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b'{"value": null}', OutgoingRecord(None, None, [])),
        (b'{"value": 5, "key": 7}', OutgoingRecord(b"5", b"7", [])),
        (b'{"value": [1, 2]}', OutgoingRecord(b"[1,2]", None, [])),
        (b'{"value": "", "headers": {"a": "1"}}', OutgoingRecord(b"", None, [("a", b"1")])),
        (b'{"value": "x", "timestamp": 5, "offset": 9}', OutgoingRecord(b"x", None, [], 5)),
    ],
)
def test_lines_that_people_write_are_understood(line: bytes, record: OutgoingRecord):
    assert decode_record(line) == record


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"nonsense", "is not JSON"),
        (b"", "is not JSON"),
        (b"[1]", 'is not an object with a "value"'),
        (b'{"key": 1}', 'is not an object with a "value"'),
        (b'{"value": 1, "timestamp": "soon"}', 'has a "timestamp" that is no time: soon'),
        (b'{"value": 1, "headers": 5}', 'has "headers" that are neither'),
        (b'{"value": 1, "headers": [["a"]]}', 'has "headers" that are neither'),
        (b'{"value": {"base64": "?"}}', "has base64 that is none"),
    ],
)
def test_lines_that_are_no_records_are_refused(line: bytes, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        decode_record(line)
