"""The client of schema registries, and JSON Schemas that become columns."""

import json

import pytest
from pyspark.sql.types import ArrayType

from headrace.streams.formats import (
    RegistryFailed,
    UnknownFormat,
    UnusableSchema,
    row_schema,
    schema_of,
)
from headrace.streams.formats.errors import RegistryUnreachable
from headrace.streams.formats.json_schema import json_schema_columns
from headrace.streams.formats.registry import BACKOFF_SECONDS, RegisteredSchema, Registry
from tests.streams.formats.registry_server import RegistryServer


def test_a_schema_is_fetched_once(registry: RegistryServer):
    number = registry.register("a-value", '"string"')
    client = Registry(registry.address)
    assert client.schema(number) == client.schema(number) == RegisteredSchema("AVRO", '"string"')
    assert registry.requests == [f"/schemas/ids/{number}"]


def test_an_unknown_id_is_none_and_asked_for_again(registry: RegistryServer):
    client = Registry(registry.address)
    assert client.schema(1) is None
    registry.register("a-value", '"string"')
    assert client.schema(1) is not None


def test_a_registry_that_is_starting_is_asked_again(registry: RegistryServer):
    number = registry.register("a-value", '"string"')
    registry.failures = 2
    waits: list[float] = []
    client = Registry(registry.address, pause=waits.append)
    assert client.schema(number) is not None
    assert waits == list(BACKOFF_SECONDS[:2])


def test_another_address_is_tried(registry: RegistryServer):
    number = registry.register("a-value", '"string"')
    client = Registry(f"http://127.0.0.1:1,{registry.address}/")
    assert client.schema(number) is not None


def test_a_registry_that_is_down_fails_with_its_address():
    client = Registry("http://user:secret@127.0.0.1:1", pause=lambda _: None)
    with pytest.raises(
        RegistryUnreachable, match=r"http://127.0.0.1:1 did not answer.*5 times"
    ) as error:
        client.schema(1)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("inside", [True, False])
def test_a_password_is_sent(registry: RegistryServer, inside: bool):
    registry.login = ("ada", "secret")
    number = registry.register("a-value", '"string"')
    address = registry.address.replace("//", "//ada:secret@") if inside else registry.address
    login = () if inside else registry.login
    assert Registry(address, *login).schema(number) is not None


def test_a_wrong_password_fails_at_once(registry: RegistryServer):
    registry.login = ("ada", "secret")
    with pytest.raises(RegistryFailed, match=r"401.*registry\.password"):
        Registry(registry.address, "ada", "wrong").schema(1)
    assert len(registry.requests) == 1


def test_references_come_with_a_schema(registry: RegistryServer):
    registry.register("inner", '"string"')
    reference = {"name": "Inner", "subject": "inner", "version": 1}
    number = registry.register("outer", '"int"', references=[reference])
    found = Registry(registry.address).schema(number)
    assert found == RegisteredSchema("AVRO", '"int"', (RegisteredSchema("AVRO", '"string"'),))


@pytest.mark.parametrize("address", ["localhost:8081", "ftp://x", ""])
def test_an_address_must_be_one(address: str):
    with pytest.raises(UnknownFormat, match="is no address"):
        Registry(address)


PERSON = {
    "type": "object",
    "required": ["id", "name", "tags"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "weight": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/address"}]},
        "born": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "colour": {"enum": ["red", "blue"]},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "definitions": {
        "address": {"type": "object", "properties": {"street": {"type": "string"}}},
        "loop": {"type": "object", "properties": {"again": {"$ref": "#/definitions/loop"}}},
    },
}


def test_a_json_schema_gives_columns(registry: RegistryServer):
    registry.register("people-value", PERSON, "JSON")
    options = {"registry": registry.address}
    columns = row_schema("json_schema", None, options, ["people"])
    tags = columns["tags"].dataType
    assert isinstance(tags, ArrayType)
    assert not tags.containsNull
    tags.containsNull = True
    assert columns == schema_of(
        "id bigint not null, name string, weight double, tags array<string> not null, "
        "address struct<street: string>, born date, at timestamp, colour string, "
        "counts map<string, bigint>"
    )


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"x": {"type": ["string", "integer"]}}, "x is"),
        ({"x": {"$ref": "#/definitions/loop"}}, "x.again refers to #/definitions/loop"),
        ({"x": {"type": "array"}}, "x is"),
        ({"x": {"type": "object", "properties": {"y": {}}}}, "x.y is"),
    ],
)
def test_what_no_column_can_hold_is_named(properties: dict[str, object], named: str):
    with pytest.raises(UnusableSchema) as refused:
        json_schema_columns({**PERSON, "properties": properties})
    assert named in str(refused.value)


def test_a_subject_that_is_not_there_is_named(registry: RegistryServer):
    with pytest.raises(RegistryFailed, match="no subject people-value"):
        row_schema("json_schema", None, {"registry": registry.address}, ["people"])


def test_a_schema_of_another_kind_is_refused(registry: RegistryServer):
    registry.register("people-value", json.dumps(PERSON), "JSON")
    with pytest.raises(UnknownFormat, match="is JSON, not AVRO"):
        row_schema("avro", None, {"registry": registry.address}, ["people"])


def test_several_topics_need_a_subject():
    with pytest.raises(UnknownFormat, match="option subject"):
        row_schema("avro", None, {"registry": "http://127.0.0.1:1"}, ["a", "b"])


def test_a_registry_format_needs_a_registry():
    with pytest.raises(UnknownFormat, match="needs the option registry"):
        row_schema("avro", None, {}, ["a"])
