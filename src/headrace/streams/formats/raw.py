"""Records as they are: keys and values as bytes, or values as text."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.streams.formats.decoding import Decoded, Reasons, Tombstones, missing_values, sift
from headrace.streams.formats.errors import UnusableSchema
from headrace.streams.formats.schemas import arrow_schema, schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

RAW: Final = "key binary, value binary"
TEXT: Final = "value string"


class RawDecoder:
    """Keys and values, untouched; no record is ever rejected, and tombstones are null values."""

    def __init__(self, schema: "StructType", options: Mapping[str, str]) -> None:
        self.schema = _columns(schema, {"key": pa.binary(), "value": pa.binary()}, "raw", RAW)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See `Decoder`."""
        arrays = [records.column(name) for name in self.schema.names]
        return Decoded(pa.RecordBatch.from_arrays(arrays, schema=self.schema), None, ())


class TextDecoder:
    """Values in UTF-8; options: `tombstones` (reject, skip, null)."""

    def __init__(self, schema: "StructType", options: Mapping[str, str]) -> None:
        self.schema = _columns(schema, {"value": pa.string()}, "text", TEXT)
        self._tombstones = Tombstones.of(options)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See `Decoder`."""
        value = records.column("value")
        reasons: Reasons = {}
        skipped = self._tombstones.judge(missing_values(value), reasons)
        try:
            text = value.cast(pa.string())
        except pa.ArrowInvalid:
            text = pa.array(
                [_text(row, raw, reasons) for row, raw in enumerate(value.to_pylist())], pa.string()
            )
        return sift(pa.RecordBatch.from_arrays([text], schema=self.schema), reasons, skipped)


def _text(row: int, raw: bytes | None, reasons: Reasons) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError as error:
        reasons[row] = f"not in UTF-8, from byte {error.start} on"
        return None


def _columns(
    schema: "StructType", offered: Mapping[str, pa.DataType], named: str, usual: str
) -> pa.Schema:
    columns = arrow_schema(schema)
    if any(offered.get(column.name) != column.type for column in columns):
        raise UnusableSchema(
            f"the format {named} gives {usual}, not {schema.simpleString()}; leave the schema out"
        )
    return columns


def raw_rows(
    schema: "StructType | None", options: Mapping[str, str], topics: Sequence[str]
) -> "StructType":
    """Keys and values as bytes, unless the schema asks for one of them only."""
    return schema or schema_of(RAW)


def text_rows(
    schema: "StructType | None", options: Mapping[str, str], topics: Sequence[str]
) -> "StructType":
    """The value as a string."""
    return schema or schema_of(TEXT)
