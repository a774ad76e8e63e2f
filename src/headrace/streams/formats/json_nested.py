"""JSON objects and arrays become structs, lists and maps; and the choice of a reader for a type."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.records.kernels.compiled import Bytes, Int64s
from headrace.streams.formats.decoding import Reasons
from headrace.streams.formats.errors import UnusableSchema
from headrace.streams.formats.json_scalars import (
    BinaryReader,
    BooleanReader,
    DateReader,
    DecimalReader,
    FloatReader,
    IntegerReader,
    PackedDecimalReader,
    Read,
    Reader,
    StringReader,
    Target,
    TimestampReader,
    absent,
    validity,
)
from headrace.streams.formats.kernels import objects
from headrace.streams.formats.kernels.objects import Names, Spans, names_of
from headrace.streams.formats.kernels.texts import WRONG_KIND
from headrace.streams.formats.kernels.tokens import ABSENT, ARRAY, OBJECT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType, StructType

_SHOWN: Final = 40


class Reading(NamedTuple):
    """What JSON does not say: the unit of times that are numbers, and how decimals are written."""

    unit: str
    packed_decimals: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct: how it is read, and whether records must have it."""

    name: str
    reader: Reader
    required: bool


@dataclass(frozen=True, slots=True)
class StructReader:
    """Objects, by the names of their fields; fields that nobody asked for are left out."""

    target: Target
    fields: "Sequence[Field]"
    names: Names

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        arrays, reasons = self.read_fields(data, spans)
        buffers = [validity(absent(spans))]
        array = pa.Array.from_buffers(self.target.arrow, len(spans.kinds), buffers, children=arrays)
        return Read(array, reasons)

    def read_fields(self, data: Bytes, spans: Spans) -> tuple[list[pa.Array], Reasons]:
        """The columns inside, one value for each span."""
        found, reasons = self.find(data, spans)
        arrays = []
        for field, field_spans in zip(self.fields, found, strict=True):
            array, problems = field.reader.read(data, field_spans)
            arrays.append(array)
            for row, reason in problems.items():
                reasons.setdefault(row, reason)
            if field.required:
                missing = (field_spans.kinds == ABSENT) & (spans.kinds != ABSENT)
                for row in np.flatnonzero(missing).tolist():
                    reasons.setdefault(row, f"{self._inside(field.name)}: missing or null")
        return arrays, reasons

    def find(self, data: Bytes, spans: Spans) -> tuple[list[Spans], Reasons]:
        """Where the fields are, and why some rows have none."""
        count, rows = len(self.fields), len(spans.kinds)
        kinds = np.zeros((count, rows), np.uint8)
        starts = np.empty((count, rows), np.int32)
        ends = np.empty((count, rows), np.int32)
        codes = np.zeros(rows, np.uint8)
        places = np.zeros(rows, np.int32)
        objects.read_objects(data, spans, self.names, kinds, starts, ends, codes, places)
        reasons = {
            row: self._reason(data, spans, row, int(codes[row]), int(places[row]))
            for row in np.flatnonzero(codes).tolist()
        }
        return [Spans(kinds[i], starts[i], ends[i]) for i in range(count)], reasons

    def _reason(self, data: Bytes, spans: Spans, row: int, code: int, place: int) -> str:
        start, end = int(spans.starts[row]), int(spans.ends[row])
        if code == objects.NOT_AN_OBJECT:
            text = data[start : min(end, start + _SHOWN)].tobytes().decode(errors="replace")
            return (
                self.target.reason(text, "is no {type}")
                if self.target.path
                else (f"no JSON object but {text}")
            )
        rest = data[place : min(end, place + _SHOWN)].tobytes().decode(errors="replace")
        return f"no JSON from byte {place - start} on: {rest}" if rest else "JSON that breaks off"

    def _inside(self, name: str) -> str:
        return f"{self.target.path}.{name}" if self.target.path else name


@dataclass(frozen=True, slots=True)
class _Entries:
    """The elements of many arrays, or the entries of many objects, one after the other."""

    bounds: pa.Buffer
    keys: Spans
    values: Spans
    parents: Int64s


def _entries(data: Bytes, spans: Spans, kind: int) -> _Entries:
    rows = len(spans.kinds)
    counts = np.empty(rows, np.int32)
    total = objects.count_entries(data, spans, kind, counts)
    bounds = np.zeros(rows + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    keys = _room(total if kind == OBJECT else 0)
    values = _room(total)
    parents = np.empty(total, np.int64)
    objects.read_entries(data, spans, kind, keys, values, parents)
    return _Entries(pa.py_buffer(bounds), keys, values, parents)


def _room(count: int) -> Spans:
    return Spans(np.empty(count, np.uint8), np.empty(count, np.int32), np.empty(count, np.int32))


def _wrong_kinds(target: Target, data: Bytes, spans: Spans, kind: int) -> Reasons:
    wrong = (spans.kinds != kind) & (spans.kinds != ABSENT)
    codes = np.where(wrong, np.uint8(WRONG_KIND), np.uint8(0))
    return target.explain(data, spans, codes)


def _blame(parents: Int64s, inside: Reasons, reasons: Reasons) -> None:
    """A row is rejected for what is wrong in it."""
    for entry, reason in inside.items():
        reasons.setdefault(int(parents[entry]), reason)


def _forbid_nulls(path: str, values: Spans, parents: Int64s, reasons: Reasons) -> None:
    for entry in np.flatnonzero(values.kinds == ABSENT).tolist():
        reasons.setdefault(int(parents[entry]), f"{path}: null, which it must not hold")


@dataclass(frozen=True, slots=True)
class ListReader:
    """Arrays of values of one type."""

    target: Target
    element: Reader
    required: bool

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        reasons = _wrong_kinds(self.target, data, spans, ARRAY)
        entries = _entries(data, spans, ARRAY)
        inside, problems = self.element.read(data, entries.values)
        _blame(entries.parents, problems, reasons)
        if self.required:
            _forbid_nulls(self.target.path, entries.values, entries.parents, reasons)
        buffers = [validity(absent(spans)), entries.bounds]
        array = pa.Array.from_buffers(
            self.target.arrow, len(spans.kinds), buffers, children=[inside]
        )
        return Read(array, reasons)


@dataclass(frozen=True, slots=True)
class MapReader:
    """Objects whose names are data: maps from strings."""

    target: Target
    value: Reader
    required: bool

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        reasons = _wrong_kinds(self.target, data, spans, OBJECT)
        entries = _entries(data, spans, OBJECT)
        key_target = Target(f"{self.target.path} key", "string", self.target.arrow.key_type)
        keys, problems = StringReader(key_target).read(data, entries.keys)
        _blame(entries.parents, problems, reasons)
        values, problems = self.value.read(data, entries.values)
        _blame(entries.parents, problems, reasons)
        if self.required:
            _forbid_nulls(self.target.path, entries.values, entries.parents, reasons)
        self._refuse_twins(keys, entries.parents, reasons)
        # Over a map with a null as key Arrow ends the process; the rows of such keys are rejected.
        pairs = pa.StructArray.from_arrays(
            [keys.fill_null(""), values],
            fields=[self.target.arrow.key_field, self.target.arrow.item_field],
        )
        buffers = [validity(absent(spans)), entries.bounds]
        array = pa.Array.from_buffers(
            self.target.arrow, len(spans.kinds), buffers, children=[pairs]
        )
        return Read(array, reasons)

    def _refuse_twins(self, keys: pa.StringArray, parents: Int64s, reasons: Reasons) -> None:
        """Spark's maps have each key once and never check."""
        present = keys.is_valid().to_numpy(zero_copy_only=False)
        codes = keys.drop_null().dictionary_encode()
        size = len(codes.dictionary) + 1
        once, counts = np.unique(
            parents[present] * size + codes.indices.to_numpy(), return_counts=True
        )
        for number in once[counts > 1].tolist():
            row, key = divmod(number, size)
            named = codes.dictionary[key].as_py()
            reasons.setdefault(row, f"{self.target.path}: has the key {named} twice")


_TYPES: Final[dict[str, type]] = {
    "BooleanType": BooleanReader,
    "ByteType": IntegerReader,
    "ShortType": IntegerReader,
    "IntegerType": IntegerReader,
    "LongType": IntegerReader,
    "FloatType": FloatReader,
    "DoubleType": FloatReader,
    "StringType": StringReader,
    "BinaryType": BinaryReader,
    "DateType": DateReader,
    "DecimalType": DecimalReader,
}


def struct_reader(
    schema: "StructType", arrow: pa.StructType, reading: Reading, path: str = ""
) -> StructReader:
    """A reader of objects with these fields; `path` is theirs, and the record itself has none."""
    fields = [
        Field(
            field.name,
            reader(field.dataType, arrow.field(place).type, reading, _join(path, field.name)),
            required=not field.nullable,
        )
        for place, field in enumerate(schema)
    ]
    names = names_of(field.name for field in fields)
    return StructReader(Target(path, "struct", arrow), fields, names)


def reader(kind: "DataType", arrow: pa.DataType, reading: Reading, path: str) -> Reader:
    """The reader of values of a Spark type, of which `arrow` is the counterpart.

    Raises:
        UnusableSchema: JSON has no form for this type.
    """
    from pyspark.sql import types

    target = Target(path, kind.simpleString(), arrow)
    if isinstance(kind, types.StructType):
        return struct_reader(kind, arrow, reading, path)
    if isinstance(kind, types.ArrayType):
        element = reader(kind.elementType, arrow.value_type, reading, f"{path}[]")
        return ListReader(target, element, required=not kind.containsNull)
    if isinstance(kind, types.MapType) and isinstance(kind.keyType, types.StringType):
        value = reader(kind.valueType, arrow.item_type, reading, f"{path}[…]")
        return MapReader(target, value, required=not kind.valueContainsNull)
    if isinstance(kind, types.TimestampType | types.TimestampNTZType):
        return TimestampReader(target, reading.unit)
    if isinstance(kind, types.DecimalType) and reading.packed_decimals:
        return PackedDecimalReader(target)
    made = _TYPES.get(type(kind).__name__)
    if made is None:
        raise UnusableSchema(
            f"{path} is a {kind.simpleString()}, which JSON cannot give; "
            f"read it as a string and convert it with Spark"
        )
    scalar: Reader = made(target)
    return scalar


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
