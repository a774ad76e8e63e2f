"""A check that a request's lengths fit its bytes, made before the bytes reach the native reader.

The native reader sets memory aside for an array as soon as it has read the array's length, so a
hostile length of two billion would end the whole process; and it takes a null for any string or
array. A guard walks a message by its schema, builds nothing, and refuses lengths that the remaining
bytes cannot hold and nulls where the schema has none.
"""

import dataclasses
import struct
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from headrace.errors import HeadraceError

Step = Callable[[memoryview, int], int]
"""Given a frame and the position of a field, the position after it."""

_FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class ProtocolError(HeadraceError):
    """A client sent bytes that are not a request; its connection is closed."""


def read_uvarint(frame: memoryview, position: int) -> tuple[int, int]:
    """An unsigned variable-length integer of at most 32 bits, and the position after it."""
    byte = frame[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = frame[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
    raise ProtocolError("a variable-length integer is longer than five bytes")


def skip_tagged_fields(
    frame: memoryview, position: int, known: dict[int, Step] | None = None
) -> int:
    """The position after a section of tagged fields; fields that are known are walked too."""
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        end = position + size
        if end > len(frame):
            raise ProtocolError("a tagged field reaches beyond the request")
        if known is not None and (step := known.get(tag)) is not None:
            step(frame[:end], position)
        position = end
    return position


@cache
def guard(entity: Any) -> Step:
    """The check for a message class: raises `ProtocolError` unless every length in it fits."""
    walk, _ = _entity(entity)

    def check(frame: memoryview, position: int) -> int:
        try:
            end = walk(frame, position)
        except (IndexError, struct.error) as error:
            raise ProtocolError("the request ends in the middle of a field") from error
        if end > len(frame):
            raise ProtocolError("the request ends in the middle of a field")
        return end

    return check


def _entity(entity: Any) -> tuple[Step, int]:
    flexible: bool = entity.__flexible__
    steps: list[Step] = []
    tagged: dict[int, Step] = {}
    smallest = fixed = 0
    for field in dataclasses.fields(entity):
        step, size, width = _field(field, flexible)
        if (tag := field.metadata.get("tag")) is not None:
            tagged[tag] = step
            continue
        smallest += size
        if width is not None:
            fixed += width
            continue
        if fixed:
            steps.append(_fixed(fixed))
            fixed = 0
        steps.append(step)
    if fixed:
        steps.append(_fixed(fixed))
    if flexible:
        smallest += 1
        steps.append(lambda frame, position: skip_tagged_fields(frame, position, tagged))
    return _sequence(steps), smallest


def _field(field: Any, flexible: bool) -> tuple[Step, int, int | None]:
    """How to walk a field, its smallest size, and its size if that never varies."""
    declared, nullable = field.type, False
    if isinstance(declared, types.UnionType):
        nullable = True
        (declared,) = (part for part in typing.get_args(declared) if part is not type(None))
    if typing.get_origin(declared) is tuple:
        item = typing.get_args(declared)[0]
        if dataclasses.is_dataclass(item):
            step, smallest = _entity(item)
        else:
            step, smallest, _ = _primitive(field.metadata["kafka_type"], flexible, nullable=False)
        walk = _array(step, max(smallest, 1), flexible, -1 if nullable else 0)
        return walk, 1 if flexible else 4, None
    if dataclasses.is_dataclass(declared):
        step, smallest = _entity(declared)
        return (_nullable(step), 1, None) if nullable else (step, smallest, None)
    return _primitive(field.metadata["kafka_type"], flexible, nullable=nullable)


def _primitive(kind: str, flexible: bool, *, nullable: bool) -> tuple[Step, int, int | None]:
    if (size := _FIXED_SIZES.get(kind)) is not None:
        return _fixed(size), size, size
    shortest = -1 if nullable else 0
    if flexible:
        return _compact_bytes(shortest), 1, None
    if kind == "string":
        return _legacy_bytes(_INT16, shortest), 2, None
    return _legacy_bytes(_INT32, shortest), 4, None


def _fixed(size: int) -> Step:
    return lambda frame, position: position + size


def _sequence(steps: list[Step]) -> Step:
    if len(steps) == 1:
        return steps[0]

    def walk(frame: memoryview, position: int) -> int:
        for step in steps:
            position = step(frame, position)
        return position

    return walk


def _nullable(step: Step) -> Step:
    def walk(frame: memoryview, position: int) -> int:
        return step(frame, position + 1) if frame[position] == 1 else position + 1

    return walk


def _array(step: Step, smallest: int, flexible: bool, fewest: int) -> Step:
    def walk(frame: memoryview, position: int) -> int:
        if flexible:
            count, position = read_uvarint(frame, position)
            count -= 1
        else:
            (count,) = _INT32.unpack_from(frame, position)
            position += 4
        if count < fewest:
            raise _no_length(count)
        if count > (len(frame) - position) // smallest:
            raise ProtocolError(f"an array claims {count} items, more than the request can hold")
        for _ in range(count):
            position = step(frame, position)
        return position

    return walk


def _compact_bytes(shortest: int) -> Step:
    def walk(frame: memoryview, position: int) -> int:
        length, position = read_uvarint(frame, position)
        if length <= shortest:
            raise _no_length(length - 1)
        return _within(frame, position + length - 1) if length else position

    return walk


def _legacy_bytes(number: struct.Struct, shortest: int) -> Step:
    def walk(frame: memoryview, position: int) -> int:
        (length,) = number.unpack_from(frame, position)
        if length < shortest:
            raise _no_length(length)
        return _within(frame, position + number.size + max(length, 0))

    return walk


def _no_length(length: int) -> ProtocolError:
    return ProtocolError(f"a field of length {length} where there must be a value")


def _within(frame: memoryview, position: int) -> int:
    if position > len(frame):
        raise ProtocolError("a string or byte field reaches beyond the request")
    return position
