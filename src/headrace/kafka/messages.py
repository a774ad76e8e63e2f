"""Requests of the Kafka protocol as plain values: what is asked in, bytes and answers out.

`kio` knows every message in every version, but its classes differ from version to version. Here a
request is named and its fields are given as keyword arguments, nested ones as dictionaries:

    request("find_coordinator", 3, key="checkout", key_type=0)
"""

import io
import struct
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

_LENGTH_AND_HEADER = struct.Struct(">ihhih")


@dataclass(frozen=True, slots=True)
class Request:
    """One request, encoded; it can be sent more than once."""

    api: str
    """The API's name in `kio`, such as "list_offsets"."""

    key: int
    version: int
    flexible: bool
    body: bytes
    read: Callable[[bytes], Any]
    """Makes an answer of a response's frame, which begins with the correlation id."""

    def frame(self, correlation_id: int, client_id: bytes) -> bytes:
        """The bytes to send, their length in front."""
        tagged_fields = b"\0" if self.flexible else b""
        length = _LENGTH_AND_HEADER.size - 4 + len(client_id) + len(tagged_fields) + len(self.body)
        header = _LENGTH_AND_HEADER.pack(
            length, self.key, self.version, correlation_id, len(client_id)
        )
        return b"".join((header, client_id, tagged_fields, self.body))


def request(api: str, version: int, **content: Any) -> Request:
    """A request of that API and version; TypeError names a field that the version does not have.

    Times are `datetime.timedelta`, as in `kio`.
    """
    from kio.serial import entity_writer

    schema, read = _schemas(api, version)
    body = io.BytesIO()
    entity_writer(schema)(body, _build(schema, content))
    flexible = schema.__header_schema__.__version__ == 2
    return Request(api, int(schema.__api_key__), version, flexible, body.getvalue(), read)


@cache
def _schemas(api: str, version: int) -> tuple[Any, Callable[[bytes], Any]]:
    """The class of a request, and what reads the frame of its response."""
    from kio.index import load_entity_schema, load_response_from_request
    from kio.serial import entity_reader
    from kio.static.constants import EntityType

    schema: Any = load_entity_schema(api, version, EntityType.request)
    response: Any = load_response_from_request(schema)
    body = 4 + (response.__header_schema__.__version__ == 1)
    read_entity = entity_reader(response)

    def read(frame: bytes) -> Any:
        return read_entity(frame, body)[0]

    return schema, read


def _build(schema: Any, content: dict[str, Any]) -> Any:
    hints = _hints(schema)
    if unknown := content.keys() - hints.keys():
        raise TypeError(f"{schema.__name__} v{schema.__version__} has no {sorted(unknown)}")
    return schema(**{name: _convert(hints[name], value) for name, value in content.items()})


@cache
def _hints(schema: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(schema)
    return {field.name: hints[field.name] for field in fields(schema)}


def _convert(hint: Any, value: Any) -> Any:
    """Turn dictionaries into the nested classes that the field's type names."""
    if isinstance(value, dict):
        (nested,) = (part for part in _parts(hint) if is_dataclass(part))
        return _build(nested, value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | memoryview):
        return tuple(_convert(hint, item) for item in value)
    return value


def _parts(hint: Any) -> list[Any]:
    arguments = typing.get_args(hint)
    return [hint] if not arguments else [part for one in arguments for part in _parts(one)]
