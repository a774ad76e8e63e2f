"""The guard lets every valid request through and no length that its bytes cannot hold."""

import contextlib
import random
import struct

import pytest
from kio.schema.index import schema_name_map
from kio.serial import entity_reader

from headrace.broker.apis import APIS
from headrace.broker.guard import MAX_ITEMS, ProtocolError, guard
from tests.broker.random_messages import encoded, random_entity, request_class

SERVED = [
    (api.name, version)
    for api in APIS.values()
    for version in sorted(schema_name_map[api.name])
    if api.first <= version <= api.last
]


@pytest.mark.parametrize(("api", "version"), SERVED)
def test_a_valid_request_is_walked_to_its_very_end(api: str, version: int) -> None:
    entity = request_class(api, version)
    source = random.Random(f"{api} {version}")
    for _ in range(20):
        message = encoded(random_entity(entity, source))
        assert guard(entity)(memoryview(message), 0) == len(message)


@pytest.mark.parametrize(("api", "version"), SERVED)
def test_a_mutilated_request_is_refused_or_read_but_never_ends_the_process(
    api: str, version: int
) -> None:
    entity = request_class(api, version)
    read = entity_reader(entity)
    source = random.Random(f"{version} {api}")
    for _ in range(60):
        message = bytearray(encoded(random_entity(entity, source)))
        for _ in range(source.randrange(1, 5)):
            if not message:
                break
            at = source.randrange(len(message))
            match source.randrange(3):
                case 0:
                    message[at] = source.randrange(256)
                case 1:
                    message[at : at + 5] = b"\xff\xff\xff\xff\x0f"
                case _:
                    del message[at:]
        frame = memoryview(bytes(message))
        try:
            guard(entity)(frame, 0)
        except ProtocolError:
            continue
        # kio has many ways to say no; that it says it, and lives, is what counts.
        with contextlib.suppress(Exception):
            read(frame, 0)


def test_an_array_of_two_billion_is_refused_before_memory_is_set_aside() -> None:
    entity = request_class("metadata", 12)
    with pytest.raises(ProtocolError, match="more than the request can hold"):
        guard(entity)(memoryview(b"\xfe\xff\xff\xff\x07" + bytes(50)), 0)


def test_more_items_than_a_broker_can_look_at_are_refused_wherever_they_are() -> None:
    flat = struct.pack(">i", MAX_ITEMS + 1) + b"\0\0" * (MAX_ITEMS + 1)
    with pytest.raises(ProtocolError, match="ask in several requests"):
        guard(request_class("metadata", 1))(memoryview(flat), 0)
    topic = b"\0\1t" + struct.pack(">i", 1_000) + bytes(4_000)
    nested = b"\0\1g" + struct.pack(">i", 201) + topic * 201
    with pytest.raises(ProtocolError, match="ask in several requests"):
        guard(request_class("offset_fetch", 1))(memoryview(nested), 0)


def test_a_string_that_reaches_beyond_the_request_is_refused() -> None:
    entity = request_class("find_coordinator", 0)
    with pytest.raises(ProtocolError, match="beyond the request"):
        guard(entity)(memoryview(b"\x7f\xffabc"), 0)


@pytest.mark.parametrize(
    ("api", "version", "message"),
    [
        ("list_offsets", 1, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("list_offsets", 6, b"\xff\xff\xff\xff\0\0\0"),
        ("find_coordinator", 0, b"\xff\xff"),
        ("find_coordinator", 3, b"\0\0\0"),
    ],
    ids=["array", "compact array", "string", "compact string"],
)
def test_a_null_where_the_schema_has_none_is_refused(
    api: str, version: int, message: bytes
) -> None:
    with pytest.raises(ProtocolError, match="where there must be a value"):
        guard(request_class(api, version))(memoryview(message), 0)
