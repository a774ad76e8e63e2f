"""JSON against Python's own reader and a converter that is as simple as it can be."""

import datetime
import decimal
import json
import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.streams.formats.batches import decode

SCHEMA = (
    "i int, l bigint, x double, ok boolean, s string, day date, at timestamp, d decimal(20,3), "
    "list array<bigint>, user struct<id int, name string>, counts map<string, bigint>"
)


class NotARow(Exception):
    """The reference rejects the record."""


def whole(value: Any, bits: int) -> int:
    if type(value) is not int or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise NotARow
    return value


def double(value: Any) -> float:
    if type(value) is int or isinstance(value, decimal.Decimal):
        number = float(value)
        if math.isinf(number):
            raise NotARow
        return number
    if isinstance(value, float):
        return value
    raise NotARow


def text(value: Any) -> str:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotARow from None
        return value
    raise NotARow


def boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise NotARow


def day(value: Any) -> datetime.date:
    try:
        if type(value) is int:
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
        if isinstance(value, str) and len(value) == 10:
            return datetime.date.fromisoformat(value)
    except (ValueError, OverflowError):
        pass
    raise NotARow


def moment(value: Any) -> datetime.datetime:
    began = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    try:
        if type(value) is int:
            return began + datetime.timedelta(milliseconds=value)
        if isinstance(value, str):
            parsed = datetime.datetime.fromisoformat(value)
            parsed = parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.UTC)
            return parsed.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        pass
    raise NotARow


def exact(value: Any) -> decimal.Decimal:
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        raise NotARow
    number = decimal.Decimal(value)
    with decimal.localcontext(prec=400):
        units = number.scaleb(3)
        if units != units.to_integral_value() or abs(units) >= 10**20:
            raise NotARow
        return number.quantize(decimal.Decimal("0.001"))


def optional(convert: Any, value: Any) -> Any:
    return None if value is None else convert(value)


def reference(value: bytes) -> dict[str, Any]:
    """The row of a record, or NotARow."""
    record = json.loads(value, parse_float=decimal.Decimal)
    if not isinstance(record, dict):
        raise NotARow

    def numbers(given: Any) -> list[Any]:
        if not isinstance(given, list):
            raise NotARow
        return [optional(lambda one: whole(one, 64), one) for one in given]

    def user(given: Any) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise NotARow
        named = optional(text, given.get("name"))
        return {"id": optional(lambda one: whole(one, 32), given.get("id")), "name": named}

    def counts(given: Any) -> list[Any]:
        if not isinstance(given, dict):
            raise NotARow
        pairs = given.items()
        return [(text(key), optional(lambda one: whole(one, 64), one)) for key, one in pairs]

    convert = {
        "i": lambda one: whole(one, 32),
        "l": lambda one: whole(one, 64),
        "x": double,
        "ok": boolean,
        "s": text,
        "day": day,
        "at": moment,
        "d": exact,
        "list": numbers,
        "user": user,
        "counts": counts,
    }
    return {name: optional(function, record.get(name)) for name, function in convert.items()}


names = st.sampled_from(["i", "l", "x", "ok", "s", "day", "at", "d", "list", "user", "counts", "?"])
integers = st.one_of(st.integers(-3, 3), st.integers(-(2**65), 2**65), st.integers(-(10**6), 10**6))
doubles = st.floats(allow_nan=False, allow_infinity=False)
strings = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.dates().map(str),
    st.datetimes(timezones=st.none() | st.just(datetime.UTC)).map(lambda at: at.isoformat()),
)
scalars = st.none() | st.booleans() | integers | doubles | strings
fitting = {
    "i": st.integers(-(2**31), 2**31 - 1),
    "l": st.integers(-(2**63), 2**63 - 1),
    "x": doubles,
    "ok": st.booleans(),
    "s": strings,
    "day": st.dates().map(str) | st.integers(-700_000, 2_000_000),
    "at": st.datetimes().map(lambda at: at.isoformat()) | st.integers(-(10**13), 10**13),
    "d": st.integers(-(10**17), 10**17),
    "list": st.lists(st.none() | integers, max_size=4),
    "user": st.fixed_dictionaries({}, optional={"id": st.integers(-9, 9), "name": strings}),
    "counts": st.dictionaries(st.text(max_size=3), st.integers(-9, 9), max_size=3),
}
objects = st.fixed_dictionaries({}, optional=fitting)
odd = st.dictionaries(
    names,
    st.recursive(scalars, lambda one: st.lists(one, max_size=3) | st.dictionaries(names, one)),
    max_size=4,
)


@st.composite
def written(draw: st.DrawFn) -> bytes:
    record = draw(st.one_of(objects, objects, odd, scalars))
    indent = draw(st.sampled_from([None, None, 1]))
    plain = draw(st.booleans())
    try:
        return json.dumps(record, indent=indent, ensure_ascii=plain).encode()
    except UnicodeEncodeError:
        return json.dumps(record).encode()


def is_text_for_nested(record: Any) -> bool:
    """Whether the string column holds an object or an array, whose JSON text is kept."""
    return isinstance(record, dict) and isinstance(record.get("s"), dict | list)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(written(), max_size=12))
def test_records_are_read_as_python_reads_them(values: list[bytes]):
    values = [value for value in values if not is_text_for_nested(json.loads(value))]
    decoded = decode("json", SCHEMA, values)
    accepted = range(len(values)) if decoded.accepted is None else decoded.accepted.to_pylist()
    rows = dict(zip(accepted, decoded.rows.to_pylist(), strict=True))
    rejected = dict(decoded.rejected)
    for index, value in enumerate(values):
        try:
            expected = reference(value)
        except NotARow:
            assert index in rejected, (value, rows[index])
        else:
            assert index in rows, (value, rejected[index])
            for name, one in expected.items():
                assert same(rows[index][name], one), (name, value)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_text_is_json_if_python_says_so(data: st.DataObject):
    value = bytearray(data.draw(written()))
    for _ in range(data.draw(st.integers(0, 3))):
        if value:
            place = data.draw(st.integers(0, len(value) - 1))
            value[place] = data.draw(st.sampled_from(b'{}[]",:\\ 0-1.eEtnu\n\x00'))
    decoded = decode("json", "nothing boolean", [bytes(value)])
    try:
        # Text that nobody asked for need not be UTF-8.
        expected = isinstance(json.loads(value.decode(errors="replace")), dict)
    except (ValueError, RecursionError):
        expected = False
    assert decoded.rows.num_rows == expected, (bytes(value), decoded.rejected)


def test_nesting_has_a_limit_instead_of_an_overflow():
    deepest = 60
    fine = b'{"a":' + b"[" * deepest + b"]" * deepest + b"}"
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    decoded = decode("json", "b int", [fine, deep])
    assert decoded.rows.num_rows == 1
    assert [record for record, _ in decoded.rejected] == [1]


def test_one_bad_record_costs_only_itself():
    values = [b'{"i":%d}' % number for number in range(5000)]
    values[1234] = b'{"i":"x"}'
    values[4321] = b"\xff\xfe"
    decoded = decode("json", "i int", values)
    assert decoded.rows.num_rows == 4998
    assert decoded.accepted is not None
    assert decoded.accepted.to_pylist() == decoded.rows.column("i").to_pylist()
    assert [record for record, _ in decoded.rejected] == [1234, 4321]


def test_a_slice_of_a_batch_is_decoded_like_a_batch():
    from headrace.streams.formats import decoder, row_schema
    from tests.streams.formats.batches import batch

    records = batch([b'{"i":%d}' % number if number % 3 else None for number in range(50)])
    made = decoder("json", row_schema("json", "i int", {}), {})
    decoded = made.decode(records.slice(20, 10))
    assert decoded.rows.column("i").to_pylist() == [20, 22, 23, 25, 26, 28, 29]
    assert [record for record, _ in decoded.rejected] == [1, 4, 7]


def test_text_that_is_not_utf8_is_rejected_where_it_is_read():
    decoded = decode("json", "s string", [b'{"s":"fine"}', b'{"s":"\xff"}', b'{"s":"\\u00e9"}'])
    assert decoded.rows.column("s").to_pylist() == ["fine", "é"]
    assert decoded.rejected[0].reason == 's: "\ufffd" is not in UTF-8'
