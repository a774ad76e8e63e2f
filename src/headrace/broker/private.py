"""What Headrace's own tools ask of a broker that Kafka's protocol has no words for.

One API key, which is not advertised, so that no other client stumbles over it. A request has the
usual header (version 1) and a JSON object as its body, which names the operation; the answer is a
JSON object with either a `result` or an `error` that has a `kind` and a `message`.
"""

import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import orjson

from headrace.broker import handlers
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

PRIVATE: Final = 0x4852
"""The API key: the letters HR."""

VERSION: Final = 0
"""The only version of the framing so far."""

Operation = Callable[["BrokerCore", dict[str, Any]], Awaitable[object]]
"""Answers the parameters of a request."""

OPERATIONS: Final = ("archive.state", "excision.start", "excision.poll")
"""What can be asked: a module of `handlers` and a function in it."""

_HEADER: Final = struct.Struct(">ii")


async def answer(core: "BrokerCore", request: bytes, version: int) -> dict[str, object]:
    """Do what a request asks; what it refuses is an answer, too."""
    if version != VERSION:
        return _error("version", f"this broker knows version {VERSION}, not {version}")
    try:
        parameters = orjson.loads(request)
        named = parameters["operation"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        named = None
    if named not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        return _error("operation", f"this broker knows the operations {known}; update it")
    family, _, name = named.partition(".")
    operation: Operation = handlers.find(family, name)
    try:
        return {"result": await operation(core, parameters)}
    except HeadraceError as error:
        return _error(type(error).__name__, str(error))


def frame(correlation_id: int, reply: dict[str, object]) -> bytes:
    """A whole response, its length first."""
    body = orjson.dumps(reply)
    return _HEADER.pack(len(body) + 4, correlation_id) + body


def _error(kind: str, message: str) -> dict[str, object]:
    return {"error": {"kind": kind, "message": message}}
