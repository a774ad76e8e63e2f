"""The API key that is not advertised: who may find it, and what it answers to nonsense."""

import json
import struct
from typing import Any

from headrace.broker.private import PRIVATE
from headrace.broker.server import Server
from tests.broker.raw_client import Connect, request_module


def framed(body: bytes, *, version: int = 0) -> bytes:
    header = struct.pack(">hhih", PRIVATE, version, 77, -1)
    return struct.pack(">i", len(header) + len(body)) + header + body


async def ask(connect: Connect, body: bytes, *, version: int = 0) -> Any:
    client = await connect()
    client.writer.write(framed(body, version=version))
    answer = await client.receive()
    assert struct.unpack_from(">i", answer) == (77,)
    return json.loads(answer[4:])


async def test_it_is_not_advertised(connect: Connect) -> None:
    client = await connect()
    answer = await client.ask(request_module("api_versions", 0).ApiVersionsRequest())
    assert PRIVATE not in {api.api_key for api in answer.api_keys}


async def test_nonsense_is_answered(connect: Connect, server: Server) -> None:
    for body in (b"", b"{", b"[]", b"7", b'{"operation": "dance"}', b'{"operation": ["x"]}'):
        answer = await ask(connect, body)
        assert answer["error"]["kind"] == "operation", body
    answer = await ask(connect, b'{"operation": "excision.start"}', version=9)
    assert answer["error"]["kind"] == "version"
    assert server.metrics.requests[PRIVATE] == 7


async def test_parameters_that_make_no_sense_are_refused(connect: Connect) -> None:
    good = {"operation": "excision.start", "topic": "t", "keys": ["a2V5"], "headers": []}
    changes: list[dict[str, Any]] = [
        {"keys": "a2V5!"},
        {"keys": [7]},
        {"keys": []},
        {"headers": [["only a name"]]},
        {"partitions": ["first"]},
        {"patience_ms": "long"},
        {"topic": None, "keys": None},
    ]
    for change in changes:
        answer = await ask(connect, json.dumps({**good, **change}).encode())
        assert answer["error"]["kind"] == "ExcisionRefused", change
    answer = await ask(connect, json.dumps(good).encode())
    assert answer["error"]["kind"] == "UnknownTopic"
    answer = await ask(connect, b'{"operation": "excision.poll", "job": "none", "wait_ms": 1}')
    assert answer["error"]["kind"] == "UnknownJob"
