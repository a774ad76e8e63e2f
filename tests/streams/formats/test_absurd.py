"""Whatever a record holds, it is a row or rejected with a reason; nothing is raised."""

import io
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.formats import decoder, row_schema
from headrace.streams.formats.decoding import Decoded
from tests.streams.formats.batches import batch, decode, framed, shown
from tests.streams.formats.registry_server import RegistryServer, registry_server

scalar_types = st.sampled_from(
    [
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"),
        *("date", "timestamp", "timestamp_ntz", "decimal(1,0)", "decimal(10,2)", "decimal(18,18)"),
        *("decimal(38,0)", "decimal(38,38)"),
    ]
)
not_null = st.sampled_from(["", " not null"])


def nested_types(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    structs = st.tuples(inside, not_null, inside).map(
        lambda types: f"struct<a {types[0]}{types[1]}, b {types[2]}>"
    )
    return structs | inside.map("array<{}>".format) | inside.map("map<string, {}>".format)


types = st.recursive(scalar_types, nested_types, max_leaves=4)

numbers = st.one_of(
    st.integers().map(str),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from([3, 4299, 4301, 9000]).map(lambda count: "7" * count),
    st.sampled_from([3, 4299, 4301, 9000]).map(lambda count: "0." + "7" * count),
    st.sampled_from([3, 4301]).map(lambda count: "-0." + "0" * count + "1"),
    st.sampled_from([3, 4301]).map(lambda count: "1." + "0" * count),
    st.tuples(st.integers(-9, 9), st.integers()).map(lambda pair: f"{pair[0]}e{pair[1]}"),
    st.sampled_from(["1e" + "9" * 5000, "1e-" + "9" * 5000, "0e" + "9" * 5000]),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
)
texts = st.one_of(
    st.text(max_size=8).map(json.dumps),
    st.binary(max_size=6).map(lambda raw: '"' + raw.decode("latin-1").replace('"', "") + '"'),
    numbers.map(lambda number: f'"{number}"'),
    st.dates().map(lambda day: f'"{day}"'),
    st.sampled_from(['"//////////////////////////////8="', '"0000-00-00"', '"9999-12-31T25:61"']),
)
names = st.sampled_from(["a", "b", "after", "before", "op", "ts_ms", "source", "payload", "schema"])


def nested_values(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lists = st.lists(inside, max_size=3).map(lambda each: f"[{', '.join(each)}]")
    pairs = st.lists(st.tuples(names.map(json.dumps) | texts, inside), max_size=4)
    return lists | pairs.map(lambda each: "{" + ", ".join(f"{k}: {v}" for k, v in each) + "}")


values = st.recursive(
    st.sampled_from(["null", "true", "false", "", "nul"]) | numbers | texts,
    nested_values,
    max_leaves=8,
)


def as_bytes(text: str) -> bytes:
    """Mostly UTF-8, sometimes not: what has no place in Latin-1 is."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode(errors="replace")


records = st.one_of(
    st.none(),
    st.binary(max_size=12),
    values.map(as_bytes),
    values.map(lambda value: as_bytes(f'{{"a": {value}}}')),
    st.tuples(values, values).map(lambda pair: as_bytes(f'{{"a": {pair[0]}, "b": {pair[1]}}}')),
    st.tuples(values, values, values).map(
        lambda three: as_bytes(
            f'{{"op": "u", "before": {{"a": {three[0]}}}, "after": {{"a": {three[1]}}}, '
            f'"ts_ms": {three[2]}, "source": {{"ts_ms": {three[2]}}}}}'
        )
    ),
)
FORMATS = [
    ("json", {}),
    ("json", {"epoch": "s", "tombstones": "null"}),
    ("json_schema", {"tombstones": "skip"}),
    ("debezium", {"decimals": "plain", "tombstones": "reject"}),
    ("debezium", {"unwrap": "true"}),
]


def each_has_one_fate(decoded: Decoded, count: int) -> None:
    accepted = range(count) if decoded.accepted is None else decoded.accepted.to_pylist()
    rejected = [record for record, _ in decoded.rejected]
    assert len(accepted) == decoded.rows.num_rows
    assert len(set(accepted) | set(rejected)) == len(accepted) + len(rejected)
    assert len(accepted) + len(rejected) + decoded.skipped == count
    assert all(reason for _, reason in decoded.rejected)
    assert len(decoded.rows.to_pylist()) == len(accepted)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(FORMATS), types, not_null, types, st.lists(records, max_size=8))
def test_any_json_is_a_row_or_rejected(
    chosen: tuple[str, dict[str, str]], one: str, forced: str, other: str, given: list[bytes | None]
):
    named, options = chosen
    framing = named == "json_schema"
    written = [each and framed(1, each) if framing else each for each in given]
    decoded = decode(named, f"a {one}{forced}, b {other}", written, **options)
    each_has_one_fate(decoded, len(written))


def test_a_map_whose_key_is_no_text_is_rejected_and_ends_nothing():
    given = [b'{"a": {"\\ud800": 1}}', b'{"a": {"\xff": 1}}', b'{"a": {"x": 1}}']
    decoded = decode("json", "a map<string, int>", given)
    assert [record for record, _ in decoded.rejected] == [0, 1]
    assert decoded.rows.to_pylist() == [{"a": [("x", 1)]}]


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": DECIMAL},
        {"name": "name", "type": "string"},
    ],
}
WITH_A_MAP = {
    **AVRO,
    "name": "M",
    "fields": [*AVRO["fields"], {"name": "m", "type": {"type": "map", "values": "long"}}],
}


def avro(schema: Any, **given: Any) -> bytes:
    """A record whose times and decimals are whatever is given."""
    bare = json.loads(json.dumps(schema), object_hook=_without_logic)
    row = {"at": 0, "seen": None, "day": 0, "price": b"\1", "name": "x", "m": {}, **given}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(bare), row)
    return framed(1, stream.getvalue())


def _without_logic(part: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in part.items() if name != "logicalType"}


def read(registry: RegistryServer, schema: str | None, given: Sequence[bytes | None]) -> Decoded:
    options = {"registry": registry.address, "subject": "s"}
    decoded = decoder("avro", row_schema("avro", schema, options), options).decode(batch(given))
    decoded.rows.validate(full=True)
    return decoded


ABSURD = {
    "at": 2**62,
    "seen": -(2**63),
    "day": 2**31 - 1,
    "price": b"\x7f" * 40,
}


@pytest.mark.parametrize("schema", [AVRO, WITH_A_MAP], ids=["at once", "one by one"])
def test_absurd_avro_costs_only_itself(schema: Any):
    with registry_server() as registry:
        registry.register("s", schema)
        given = [avro(schema), *(avro(schema, **{name: ABSURD[name]}) for name in ABSURD)]
        decoded = read(registry, None, [*given, avro(schema)])
        each_has_one_fate(decoded, len(given) + 1)
        assert decoded.accepted is not None
        assert decoded.accepted.to_pylist() == [0, len(given)]
        assert [reason.partition(":")[0] for _, reason in decoded.rejected][-1] != ""
        assert decoded.rows.column("price").to_pylist() == [Decimal("0.01")] * 2


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_bytes_are_avro_or_rejected(data: st.DataObject):
    with registry_server() as registry:
        chosen = data.draw(st.sampled_from([AVRO, WITH_A_MAP]))
        registry.register("s", chosen)
        longs = st.integers(-(2**63), 2**63 - 1)
        rows = st.fixed_dictionaries(
            {"at": longs, "seen": longs, "day": st.integers(-(2**31), 2**31 - 1)}
        )
        good = rows.map(lambda row: avro(chosen, **row))
        cut = st.tuples(good, st.integers(0, 40)).map(lambda pair: pair[0][: pair[1]])
        noise = st.binary(max_size=40).map(lambda raw: framed(1, raw))
        given = data.draw(st.lists(good | cut | noise | st.none(), max_size=40))
        wanted = data.draw(
            st.sampled_from([None, "at timestamp_ntz, price decimal(3,0)", "day date, name binary"])
        )
        each_has_one_fate(read(registry, wanted, given), len(given))


def test_a_schema_that_is_none_costs_only_its_records():
    odd = [{"type": "record", "name": "R", "fields": [{"name": "a", "type": "nonsense"}]}, "long"]
    odd.append({**AVRO, "fields": [{"name": "price", "type": {**DECIMAL, "precision": 99}}]})
    with registry_server() as registry:
        registry.register("s", AVRO)
        for each in [*odd, '{"type": "rec']:
            registry.register("odd", each)
        given = [avro(AVRO), *(framed(number, b"\0") for number in (2, 3, 4, 5))]
        decoded = read(registry, "price decimal(5,2)", given)
    assert [record for record, _ in decoded.rejected] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("written", "fate"),
    [
        ("0." + "7" * 5000, "has more decimals than decimal(20,2) holds"),
        ("7" * 5000, "does not fit decimal(20,2)"),
        ('"' + "7" * 5000 + '"', "does not fit decimal(20,2)"),
        ("1e" + "9" * 5000, "does not fit decimal(20,2)"),
        ("1e-" + "9" * 5000, "has more decimals than decimal(20,2) holds"),
        ("1." + "0" * 5000, "1.00"),
        ("-12345678901234567.80", "-12345678901234567.80"),
        ("0.00000000000000000001e22", "100.00"),
        ("-0e" + "9" * 5000, "0.00"),
        ("999999999999999999.99", "999999999999999999.99"),
        ("999999999999999999.995", "has more decimals than decimal(20,2) holds"),
    ],
)
def test_decimals_of_any_length_are_read_or_rejected(written: str, fate: str):
    decoded = decode("json", "d decimal(20,2)", [f'{{"d": {written}}}'.encode()])
    (line,) = shown(decoded, 1)
    assert line.endswith(fate)
    assert line.startswith("rejected: d: ") == ("decimal" in fate)
