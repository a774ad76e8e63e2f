"""Requests written byte for byte, for answers that client libraries do not let through."""

import io
import socket
import struct
import typing
from dataclasses import fields, is_dataclass
from types import TracebackType
from typing import Any, Self

from kio.index import load_entity_schema, load_response_from_request
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tests.clusters import Cluster


class Wire:
    """One blocking connection that speaks any version of any request.

    Requests are given as plain keyword arguments; nested structures as dictionaries.
    """

    def __init__(self, cluster: Cluster, *, timeout: float = 20) -> None:
        self._socket = socket.create_connection((cluster.host, cluster.port), timeout=timeout)
        self._stream = self._socket.makefile("rb")
        self._correlation = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, api: str, version: int, **content: object) -> Any:
        """Send a request and return the answer."""
        request = self.send(api, version, **content)
        return self.receive(request)

    def send(self, api: str, version: int, **content: object) -> Any:
        """Send a request without waiting for the answer; returns what `receive` takes."""
        schema: Any = load_entity_schema(api, version, EntityType.request)
        request = _build(schema, content)
        self._correlation += 1
        frame = io.BytesIO()
        frame.write(struct.pack(">hhih", schema.__api_key__, version, self._correlation, 4))
        frame.write(b"wire")
        if schema.__header_schema__.__flexible__:
            frame.write(b"\0")
        entity_writer(schema)(frame, request)
        self.send_frame(frame.getvalue())
        return request

    def receive(self, request: Any) -> Any:
        """The answer to a request that was sent."""
        schema: Any = load_response_from_request(type(request))
        frame = self.receive_frame()
        position = 4 + (1 if schema.__header_schema__.__flexible__ else 0)
        response, _ = entity_reader(schema)(memoryview(frame), position)
        return response

    def send_frame(self, frame: bytes) -> None:
        """Send a request that the caller has laid out, its length in front."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        """The next response frame; EOFError if the broker closed the connection."""
        prefix = self._stream.read(4)
        if len(prefix) < 4:
            raise EOFError("the broker closed the connection")
        (size,) = struct.unpack(">i", prefix)
        return self._stream.read(size)


def _build(schema: Any, content: dict[str, Any]) -> Any:
    hints = typing.get_type_hints(schema)
    unknown = content.keys() - {field.name for field in fields(schema)}
    if unknown:
        raise TypeError(f"{schema.__name__} v{schema.__version__} has no {sorted(unknown)}")
    return schema(**{name: _convert(hints[name], value) for name, value in content.items()})


def _convert(hint: Any, value: Any) -> Any:
    """Turn dictionaries into the nested entities that the field's type names."""
    if isinstance(value, dict):
        (schema,) = (part for part in _parts(hint) if is_dataclass(part))
        return _build(schema, value)
    if isinstance(value, list):
        return tuple(_convert(hint, item) for item in value)
    return value


def _parts(hint: Any) -> list[Any]:
    arguments = typing.get_args(hint)
    return [hint] if not arguments else [part for one in arguments for part in _parts(one)]
