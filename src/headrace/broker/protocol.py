"""The Kafka protocol as handlers see it: typed requests in, typed replies out.

`kio` knows every message of every version. This module finds the right classes for an API key and
version, reads a request frame's header and body, and gives handlers a `Call` whose `reply` builds
answers in the version the client asked for.
"""

import dataclasses
import datetime
import io
import struct
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kio.index import load_entity_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from headrace.broker.guard import ProtocolError, guard, skip_tagged_fields

if TYPE_CHECKING:
    from headrace.broker.handlers.produce_route import Route

LONGEST_MESSAGE = 1_000
"""Letters of an error message; it may quote a name that is as long as a string can be."""

NOT_THROTTLED = datetime.timedelta(0)
"""The throttle time of every reply: Headrace slows clients through TCP, not by asking them."""

_INT16 = struct.Struct(">h")
_RESPONSE_HEADER = struct.Struct(">ii")


class UnsupportedRequest(ProtocolError):
    """A well-formed request for an API, or a version of it, that the broker does not serve."""


class ReplySchema:
    """The message classes of one API's response in one version, as tolerant builders.

    `schema.Name(field=..., ...)` builds the class `Name` of that version and leaves out the fields
    that the version does not have, so that a handler states the newest form once. The throttle time
    is filled in.
    """

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        entity = getattr(self._module, name)
        known = frozenset(field.name for field in dataclasses.fields(entity))
        throttled = "throttle_time" in known

        def build(**fields: object) -> object:
            if throttled:
                fields["throttle_time"] = NOT_THROTTLED
            if type(message := fields.get("error_message")) is str:
                fields["error_message"] = message[:LONGEST_MESSAGE]
            return entity(**{key: value for key, value in fields.items() if key in known})

        setattr(self, name, build)
        return build


@dataclasses.dataclass(slots=True)
class Call:
    """One request being answered: who asks, in which version, and how to build the reply.

    `address` is the host and port at which this client is to find the broker.
    """

    version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    address: tuple[str, int]
    codec: "MessageCodec"
    route: "Route | None" = None
    """Set by a produce request: the way that the client's next ones may take."""

    @property
    def reply(self) -> ReplySchema:
        """Builders for this version's response classes."""
        return self.codec.reply


class MessageCodec:
    """Reads requests and writes responses of one API in one version."""

    __slots__ = ("_guard", "_read", "_write", "flexible_request", "flexible_response", "reply")

    def __init__(self, api_name: str, version: int) -> None:
        request = _payload(api_name, version, EntityType.request)
        response_module = load_entity_module(api_name, version, EntityType.response)
        response = _payload(api_name, version, EntityType.response)
        self.flexible_request: bool = request.__header_schema__.__version__ == 2
        self.flexible_response: bool = response.__header_schema__.__version__ == 1
        self.reply = ReplySchema(response_module)
        self._guard = guard(request)
        self._read = entity_reader(request)
        self._write = entity_writer(response)

    def read(self, frame: memoryview, body: int) -> Any:
        """The request in a frame; `ProtocolError` if the bytes do not make one."""
        self._guard(frame, body)
        try:
            # The native reader takes nothing that could change under its hands.
            entity, _ = self._read(bytes(frame), body)
        except Exception as error:
            raise ProtocolError(f"request body cannot be read: {error!r}") from error
        return entity

    def write(self, correlation_id: int, response: Any) -> bytes:
        """A whole response frame, its length first."""
        buffer = io.BytesIO()
        buffer.write(b"\0\0\0\0\0\0\0\0")
        if self.flexible_response:
            buffer.write(b"\0")
        self._write(buffer, response)
        frame = buffer.getbuffer()
        _RESPONSE_HEADER.pack_into(frame, 0, len(frame) - 4, correlation_id)
        return bytes(frame)


def _payload(api_name: str, version: int, kind: Any) -> Any:
    module = load_entity_module(api_name, version, kind)
    for entity in vars(module).values():
        if isinstance(entity, type) and getattr(entity, "__type__", None) is kind:
            return entity
    raise UnsupportedRequest(f"{api_name} has no version {version}")


@cache
def message_codec(api_name: str, version: int) -> MessageCodec:
    """The codec for one API and version; loaded when first asked for."""
    return MessageCodec(api_name, version)


def get(request: Any, field: str, default: Any = None) -> Any:
    """A request's field, or the default where its version has no such field."""
    return getattr(request, field, default)


def read_client_id(frame: memoryview, position: int, *, flexible: bool) -> tuple[str | None, int]:
    """The client id in a request header, and where the request's body begins."""
    try:
        (length,) = _INT16.unpack_from(frame, position)
        position += 2
        client_id = None
        if length >= 0:
            if position + length > len(frame):
                raise ProtocolError("the client id reaches beyond the request")
            client_id = str(frame[position : position + length], "utf-8", "replace")
            position += length
        if flexible:
            position = skip_tagged_fields(frame, position)
    except (struct.error, IndexError) as error:
        raise ProtocolError("the request ends inside its header") from error
    return client_id, position
