"""Columns as their writer meant them become columns as the reader asked for them.

The rules are Avro's: fields go by their names, what the writer does not have is null, and numbers
may become wider. Narrower ones are accepted value by value.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.streams.formats.calendar import beyond_calendar
from headrace.streams.formats.decoding import Reasons
from headrace.streams.formats.errors import FormatError


class Mismatch(FormatError):
    """The writer's type can never be the reader's; all records of that schema are rejected."""


class Conformed(NamedTuple):
    """A column of the type that was asked for, and why some of its rows are none."""

    array: pa.Array
    reasons: Reasons


def conform(array: pa.Array, field: pa.Field, path: str) -> Conformed:
    """The column as `field` wants it.

    Raises:
        Mismatch: it can never be that.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    beyond = beyond_calendar(array, path)
    if beyond:
        array = _without(array, beyond)
    converted, reasons = _convert(array, field.type, path)
    reasons |= beyond
    if not field.nullable and array.null_count:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            reasons.setdefault(row, f"{path}: missing or null")
    return Conformed(converted, reasons)


def _without(array: pa.Array, rows: Reasons) -> pa.Array:
    """The column with nulls in these rows."""
    gone = np.zeros(len(array), np.bool_)
    gone[list(rows)] = True
    return pc.if_else(pa.array(gone), pa.scalar(None, array.type), array)


def _convert(array: pa.Array, wanted: pa.DataType, path: str) -> Conformed:
    kind = array.type
    if pa.types.is_null(kind):
        return Conformed(pa.nulls(len(array), wanted), {})
    if kind == wanted:
        return Conformed(array, {})
    if pa.types.is_struct(wanted) and pa.types.is_struct(kind):
        return _convert_struct(array, wanted, path)
    if pa.types.is_list(wanted) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return _convert_list(array, wanted, path)
    if pa.types.is_map(wanted) and pa.types.is_map(kind):
        return _convert_map(array, wanted, path)
    if not _may_become(kind, wanted):
        raise Mismatch(f"{path} is {kind}, which cannot be read as {wanted}")
    return _cast(array, wanted, path)


def _convert_struct(array: pa.StructArray, wanted: pa.StructType, path: str) -> Conformed:
    reasons: Reasons = {}
    children = []
    present = array.is_valid().to_numpy(zero_copy_only=False)
    for field in wanted:
        inside = f"{path}.{field.name}"
        place = array.type.get_field_index(field.name)
        child = pa.nulls(len(array), field.type) if place < 0 else array.field(place)
        converted, problems = conform(child, field, inside)
        children.append(converted)
        for row, reason in problems.items():
            if present[row]:
                reasons.setdefault(row, reason)
    built = pa.Array.from_buffers(wanted, len(array), [_validity(present)], children=children)
    return Conformed(built, reasons)


def _convert_list(array: pa.Array, wanted: pa.ListType, path: str) -> Conformed:
    lengths = array.value_lengths().fill_null(0).to_numpy()
    inside, problems = conform(array.flatten(), wanted.value_field, f"{path}[]")
    built = _of_lengths(array, wanted, lengths, inside)
    return Conformed(built, _blamed(problems, lengths))


def _convert_map(array: pa.MapArray, wanted: pa.MapType, path: str) -> Conformed:
    bounds = array.offsets.to_numpy()
    lengths = np.diff(bounds)
    taken = slice(int(bounds[0]), int(bounds[-1]))
    keys, _ = conform(array.keys[taken], wanted.key_field, f"{path} key")
    values, problems = conform(array.items[taken], wanted.item_field, f"{path}[…]")
    pairs = pa.StructArray.from_arrays([keys, values], fields=[wanted.key_field, wanted.item_field])
    return Conformed(_of_lengths(array, wanted, lengths, pairs), _blamed(problems, lengths))


def _of_lengths(array: pa.Array, wanted: pa.DataType, lengths: Any, inside: pa.Array) -> pa.Array:
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    present = array.is_valid().to_numpy(zero_copy_only=False)
    buffers = [_validity(present), pa.py_buffer(bounds)]
    return pa.Array.from_buffers(wanted, len(array), buffers, children=[inside])


def _blamed(problems: Reasons, lengths: Any) -> Reasons:
    """What is wrong inside, by the rows that it is inside of."""
    if not problems:
        return {}
    parents = np.repeat(np.arange(len(lengths)), lengths)
    return {int(parents[entry]): reason for entry, reason in problems.items()}


def _validity(present: Any) -> pa.Buffer | None:
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def _may_become(kind: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if types.is_integer(kind):
        numeric = types.is_integer(wanted) or types.is_floating(wanted)
        return bool(numeric or types.is_decimal(wanted))
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    for family in (types.is_floating, types.is_decimal, types.is_timestamp, types.is_date):
        if family(kind):
            return bool(family(wanted))
    return any(one(kind) for one in texts) and any(one(wanted) for one in texts)


def _cast(array: pa.Array, wanted: pa.DataType, path: str) -> Conformed:
    # Microseconds are cut off and floats rounded; everything else that does not fit is refused.
    lossy = pa.types.is_timestamp(wanted) or pa.types.is_floating(wanted)
    try:
        return Conformed(array.cast(wanted, safe=not lossy), {})
    except pa.ArrowException:
        pass
    reasons: Reasons = {}
    pieces = []
    for row in range(len(array)):
        try:
            pieces.append(array.slice(row, 1).cast(wanted))
        except pa.ArrowException:
            pieces.append(pa.nulls(1, wanted))
            reasons[row] = f"{path}: {str(array[row])[:40]} does not fit {wanted}"
    return Conformed(pa.concat_arrays(pieces), reasons)
