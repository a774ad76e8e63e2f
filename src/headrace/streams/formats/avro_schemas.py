"""Avro's schemas as columns."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.formats.errors import UnusableSchema
from headrace.streams.formats.registry import RegisteredSchema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

_NAMES: Final = {
    "boolean": "BooleanType",
    "int": "IntegerType",
    "long": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "string": "StringType",
    "bytes": "BinaryType",
    "fixed": "BinaryType",
    "enum": "StringType",
}
_LOGICAL: Final = {
    "date": "DateType",
    "timestamp-millis": "TimestampType",
    "timestamp-micros": "TimestampType",
    "local-timestamp-millis": "TimestampNTZType",
    "local-timestamp-micros": "TimestampNTZType",
}
_NAMED: Final = ("record", "error", "enum", "fixed")


class AvroSchema:
    """A record schema, and the named types that it and those it refers to define."""

    def __init__(self, registered: RegisteredSchema) -> None:
        self._named: dict[str, Any] = {}
        for reference in registered.references:
            self._named.update(AvroSchema(reference)._named)
        self.root = json.loads(registered.text)
        self._define(self.root, "")
        self.refers = bool(registered.references)

    def fields(self) -> Mapping[str, Any]:
        """The types of the record's fields.

        Raises:
            UnusableSchema: the schema is not a record's.
        """
        if not isinstance(self.root, dict) or self.root.get("type") != "record":
            raise UnusableSchema(
                "the Avro schema is no record, and has no columns; read the topic as raw"
            )
        return {field["name"]: field["type"] for field in self.root["fields"]}

    def columns(self) -> "StructType":
        """All fields as columns."""
        from pyspark.sql.types import StructType

        fields = self.fields().items()
        return StructType([self._column(name, kind, name, ()) for name, kind in fields])

    def column_type(self, name: str) -> "DataType":
        """The type of the column that a field becomes.

        Raises:
            UnusableSchema: no column can hold it.
        """
        return self._column(name, self.fields()[name], name, ()).dataType

    def is_simple(self, kind: Any = None) -> bool:
        """Whether a reader of whole blocks can read it.

        Maps, unions of several types and types by their names are left to the reader of records.
        """
        kind = self.root if kind is None else kind
        if isinstance(kind, str):
            return kind in _NAMES or kind == "null"
        if isinstance(kind, list):
            others = [one for one in kind if one != "null"]
            return len(kind) == 2 and len(others) == 1 and self.is_simple(others[0])
        if kind["type"] == "record":
            return all(self.is_simple(field["type"]) for field in kind["fields"])
        if kind["type"] == "array":
            return self.is_simple(kind["items"])
        if kind.get("logicalType", "").startswith(("time-", "duration")):
            return False
        return kind["type"] in _NAMES or (
            not isinstance(kind["type"], str) and self.is_simple(kind["type"])
        )

    def _define(self, kind: Any, space: str) -> None:
        """Note every named type inside, under its full name and its own."""
        if isinstance(kind, list):
            for one in kind:
                self._define(one, space)
        if not isinstance(kind, dict):
            return
        if kind["type"] in _NAMED:
            space = kind.get("namespace", space)
            name = kind["name"]
            self._named[name] = kind
            self._named[f"{space}.{name}" if space and "." not in name else name] = kind
        for field in kind.get("fields", ()):
            self._define(field["type"], space)
        for inside in ("items", "values", "type"):
            if not isinstance(kind.get(inside), str):
                self._define(kind.get(inside), space)

    def _column(self, name: str, kind: Any, path: str, above: tuple[str, ...]) -> "StructField":
        from pyspark.sql.types import StructField

        optional = False
        if isinstance(kind, list):
            others = [one for one in kind if one != "null"]
            optional = len(others) < len(kind)
            if len(others) != 1:
                raise _unusable(path, f"a union of {len(others)} types")
            kind = others[0]
        return StructField(name, self._type(kind, path, above), optional)

    def _type(self, kind: Any, path: str, above: tuple[str, ...]) -> "DataType":
        from pyspark.sql import types

        if isinstance(kind, str):
            kind = self._named.get(kind, {"type": kind})
        said = kind["type"]
        if not isinstance(said, str):
            return self._column("", said, path, above).dataType
        logical = kind.get("logicalType")
        if logical == "decimal":
            return types.DecimalType(kind["precision"], kind.get("scale", 0))
        if logical in _LOGICAL:
            simple: DataType = getattr(types, _LOGICAL[logical])()
            return simple
        if said == "array":
            inside = self._column("", kind["items"], f"{path}[]", above)
            return types.ArrayType(inside.dataType, inside.nullable)
        if said == "map":
            inside = self._column("", kind["values"], f"{path}[…]", above)
            return types.MapType(types.StringType(), inside.dataType, inside.nullable)
        if said in ("record", "error"):
            if kind["name"] in above:
                raise _unusable(path, f"the record {kind['name']}, which contains itself")
            within = (*above, kind["name"])
            return types.StructType(
                [
                    self._column(one["name"], one["type"], f"{path}.{one['name']}", within)
                    for one in kind["fields"]
                ]
            )
        if said in self._named:
            return self._type(self._named[said], path, above)
        if said not in _NAMES or (logical or "").startswith(("time-", "duration")):
            raise _unusable(path, f"of the type {logical or said}")
        plain: DataType = getattr(types, _NAMES[said])()
        return plain


def _unusable(path: str, what: str) -> UnusableSchema:
    return UnusableSchema(
        f"the field {path} is {what}, which no column can hold; "
        f"give a schema without it, or read the topic as raw"
    )
