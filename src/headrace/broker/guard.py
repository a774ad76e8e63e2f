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

Budget = list[int]
"""How many more array items a request may have, in its only item."""

Step = Callable[[memoryview, int, Budget], int]
"""Given a frame, the position of a field and what may still come, the position after the field."""

MAX_ITEMS = 200_000
"""Array items in one request, all arrays together. A request of a hundred megabytes has room for
fifty million, and the broker would do nothing else for minutes."""

MAX_TAGGED_FIELDS = 1_000
"""Tagged fields in one section; the protocol knows a handful."""

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


def skip_tagged_fields(frame: memoryview, position: int) -> int:
    """The position after a section of tagged fields."""
    if frame[position] == 0:
        return position + 1
    return _skip_unknown(frame, position, [0])


def spend(budget: Budget, count: int) -> None:
    """Take a number of items out of what a request may have; `ProtocolError` if it is too much."""
    budget[0] -= max(count, 0)
    if budget[0] < 0:
        raise ProtocolError(f"a request has more than {MAX_ITEMS} items; ask in several requests")


@cache
def guard(entity: Any) -> Callable[[memoryview, int], int]:
    """The check for a message class: raises `ProtocolError` unless every length in it fits."""
    walk, _ = _entity(entity)

    def check(frame: memoryview, position: int) -> int:
        try:
            end = walk(frame, position, [MAX_ITEMS])
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
        steps.append(_tagged_fields(tagged))
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
    return lambda frame, position, budget: position + size


def _sequence(steps: list[Step]) -> Step:
    if len(steps) == 1:
        return steps[0]

    def walk(frame: memoryview, position: int, budget: Budget) -> int:
        for step in steps:
            position = step(frame, position, budget)
        return position

    return walk


def _nullable(step: Step) -> Step:
    def walk(frame: memoryview, position: int, budget: Budget) -> int:
        return step(frame, position + 1, budget) if frame[position] == 1 else position + 1

    return walk


def _array(step: Step, smallest: int, flexible: bool, fewest: int) -> Step:
    def walk(frame: memoryview, position: int, budget: Budget) -> int:
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
        spend(budget, count)
        for _ in range(count):
            position = step(frame, position, budget)
        return position

    return walk


def _tagged_fields(known: dict[int, Step]) -> Step:
    """Skips fields that are unknown and walks those that are known."""

    def walk(frame: memoryview, position: int, budget: Budget) -> int:
        count, position = read_uvarint(frame, position)
        if count > MAX_TAGGED_FIELDS:
            raise ProtocolError(f"a section has {count} tagged fields")
        for _ in range(count):
            tag, position = read_uvarint(frame, position)
            size, position = read_uvarint(frame, position)
            end = position + size
            if end > len(frame):
                raise ProtocolError("a tagged field reaches beyond the request")
            if (step := known.get(tag)) is not None:
                step(frame[:end], position, budget)
            position = end
        return position

    return walk


_skip_unknown = _tagged_fields({})


def _compact_bytes(shortest: int) -> Step:
    def walk(frame: memoryview, position: int, budget: Budget) -> int:
        length, position = read_uvarint(frame, position)
        if length <= shortest:
            raise _no_length(length - 1)
        return _within(frame, position + length - 1) if length else position

    return walk


def _legacy_bytes(number: struct.Struct, shortest: int) -> Step:
    def walk(frame: memoryview, position: int, budget: Budget) -> int:
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
