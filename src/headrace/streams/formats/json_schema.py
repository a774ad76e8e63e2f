"""JSON values with a schema registry's header, and JSON Schemas as columns.

Values are read by the columns that were asked for, so decoding never waits for the registry: it is
asked for a schema only when none is given.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.streams.formats.decoding import Decoded, Reasons
from headrace.streams.formats.errors import UnusableSchema
from headrace.streams.formats.framing import HEADER_BYTES, UNFRAMED, read_headers
from headrace.streams.formats.json_values import JsonDecoder, spans_of
from headrace.streams.formats.kernels.tokens import ABSENT
from headrace.streams.formats.registry import latest_schema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_NAMES: Final = {
    "boolean": "BooleanType",
    "integer": "LongType",
    "number": "DoubleType",
    "string": "StringType",
}
_FORMATS: Final = {"date-time": "TimestampType", "date": "DateType"}


def json_schema_rows(
    schema: "StructType | None", options: Mapping[str, str], topics: Sequence[str]
) -> "StructType":
    """The given columns, or those of the registry's latest schema."""
    return schema or json_schema_columns(
        json.loads(latest_schema(options, tuple(topics), "JSON").text)
    )


class JsonSchemaDecoder(JsonDecoder):
    """Reads objects behind a registry's header; options as `json` has them, and the registry's."""

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See `Decoder`."""
        value = records.column("value")
        reasons: Reasons = {}
        framed = read_headers(value, reasons).ids != UNFRAMED
        data, spans = spans_of(value)
        spans.kinds[~framed] = ABSENT
        return self.decode_spans(
            value, data, spans._replace(starts=spans.starts + HEADER_BYTES), reasons
        )


def json_schema_columns(schema: Mapping[str, Any]) -> "StructType":
    """The columns of an object's schema: properties that are not required may be null.

    Raises:
        UnusableSchema: it is not an object's, or a property is something that no column can hold.
    """
    from pyspark.sql.types import StructType

    columns = _Translation(schema).data_type(schema, "the schema", ())
    if not isinstance(columns, StructType):
        raise UnusableSchema(
            "the JSON Schema is no object with properties, and has no columns; give a schema"
        )
    return columns


class _Translation:
    """Translates the parts of one schema, which may refer to each other."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def data_type(self, part: Mapping[str, Any], path: str, above: tuple[str, ...]) -> "DataType":
        from pyspark.sql import types

        part, above = self._resolved(part, path, above)
        part, _ = self._without_null(part, path, above)
        part, above = self._resolved(part, path, above)
        kind = part.get("type", "object" if "properties" in part else None)
        if "enum" in part and kind is None:
            kind = "string" if all(isinstance(one, str) for one in part["enum"]) else None
        if kind == "object":
            return self._object(part, path, above)
        if kind == "array" and isinstance(part.get("items"), dict):
            element = part["items"]
            inside = self.data_type(element, f"{path}[]", above)
            return types.ArrayType(inside, self._is_optional(element, path, above))
        if kind == "string" and part.get("contentEncoding") == "base64":
            return types.BinaryType()
        if kind == "string" and part.get("format") in _FORMATS:
            timed: DataType = getattr(types, _FORMATS[part["format"]])()
            return timed
        if not isinstance(kind, str) or kind not in _NAMES:
            raise UnusableSchema(
                f"{path} is {json.dumps(part)[:60]}, which no column can hold; give a schema "
                f"without it, or with a string, which keeps its JSON"
            )
        simple: DataType = getattr(types, _NAMES[kind])()
        return simple

    def _object(self, part: Mapping[str, Any], path: str, above: tuple[str, ...]) -> "DataType":
        from pyspark.sql.types import MapType, StringType, StructField, StructType

        properties = part.get("properties")
        if not properties:
            values = part.get("additionalProperties")
            inside = (
                self.data_type(values, f"{path}[…]", above)
                if isinstance(values, dict)
                else StringType()
            )
            return MapType(StringType(), inside, True)
        required = part.get("required", ())
        fields = []
        for name, inside in properties.items():
            within = name if path == "the schema" else f"{path}.{name}"
            optional = name not in required or self._is_optional(inside, within, above)
            fields.append(StructField(name, self.data_type(inside, within, above), optional))
        return StructType(fields)

    def _is_optional(self, part: Mapping[str, Any], path: str, above: tuple[str, ...]) -> bool:
        return self._without_null(self._resolved(part, path, above)[0], path, above)[1]

    def _resolved(
        self, part: Mapping[str, Any], path: str, above: tuple[str, ...]
    ) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The part that a reference inside the schema means."""
        reference = part.get("$ref")
        if reference is None:
            return part, above
        if reference in above or not reference.startswith("#/"):
            raise UnusableSchema(
                f"{path} refers to {reference}, which contains it or lies outside; give a schema"
            )
        found: Any = self._root
        for step in reference[2:].split("/"):
            found = found.get(step, {})
        return found, (*above, reference)

    def _without_null(
        self, part: Mapping[str, Any], path: str, above: tuple[str, ...]
    ) -> tuple[Mapping[str, Any], bool]:
        """The part as it is when it is not null, and whether it may be null."""
        kinds = part.get("type")
        if isinstance(kinds, list):
            others = [kind for kind in kinds if kind != "null"]
            if len(others) == 1:
                return {**part, "type": others[0]}, len(others) < len(kinds)
        for choices in ("oneOf", "anyOf"):
            options = part.get(choices, ())
            others = [option for option in options if option.get("type") != "null"]
            if len(others) == 1:
                return others[0], len(others) < len(options)
        return part, False
