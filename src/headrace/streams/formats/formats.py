"""Which formats there are, the columns that each gives, and their decoders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from headrace.streams.formats.errors import UnknownFormat, UnusableSchema
from headrace.streams.formats.schemas import SchemaLike, nullable, schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headrace.streams.formats.decoding import Decoder

Rows = Callable[["StructType | None", Mapping[str, str], Sequence[str]], "StructType"]


@dataclass(frozen=True, slots=True)
class Format:
    """A format: where its decoder lives, the options it has, and how rows follow from a schema."""

    module: str
    decoder: str
    options: frozenset[str]
    rows: str | None = None
    """The function of the module that says what rows look like; without one, as the schema says."""


_REGISTRY: Final = frozenset({"registry", "registry.user", "registry.password", "subject"})
_PACKAGE: Final = "headrace.streams.formats"

FORMATS: Final[Mapping[str, Format]] = {
    "json": Format("json_values", "JsonDecoder", frozenset({"tombstones", "epoch"})),
    "json_schema": Format(
        "json_schema", "JsonSchemaDecoder", _REGISTRY | {"tombstones", "epoch"}, "json_schema_rows"
    ),
    "avro": Format("avro_values", "AvroDecoder", _REGISTRY | {"tombstones"}, "avro_rows"),
    "debezium": Format(
        "debezium",
        "DebeziumDecoder",
        _REGISTRY | {"tombstones", "epoch", "decimals", "unwrap"},
        "debezium_rows",
    ),
    "text": Format("raw", "TextDecoder", frozenset({"tombstones"}), "text_rows"),
    "raw": Format("raw", "RawDecoder", frozenset(), "raw_rows"),
}
"""The formats by their names."""

FORMAT_OPTIONS: Final = frozenset[str]().union(*(one.options for one in FORMATS.values()))
"""Every option that some format has."""


def row_schema(
    format: str,  # noqa: A002
    given: SchemaLike | None,
    options: Mapping[str, str],
    topics: Sequence[str] = (),
) -> "StructType":
    """The columns of the rows that `format` makes of records with the schema `given`.

    This is what Spark must be told, and what `decoder` takes. Without a schema, formats with a
    registry ask it for the latest one of the topic, or of the option `subject`.

    Raises:
        UnusableSchema: the format needs a schema and there is none, or cannot use this one.
        RegistryFailed: the registry does not answer.
    """
    found = _format(format)
    schema = None if given is None else schema_of(given)
    if found.rows is not None:
        rows: Rows = getattr(import_module(f"{_PACKAGE}.{found.module}"), found.rows)
        schema = rows(schema, options, topics)
    if schema is None:
        raise UnusableSchema(
            f"the format {format} needs a schema: a DDL string such as 'user_id string, "
            f"at timestamp', a StructType, a dataclass or a pydantic model"
        )
    return nullable(schema) if options.get("tombstones") == "null" else schema


def decoder(
    format: str,  # noqa: A002
    schema: "StructType",
    options: Mapping[str, str],
) -> "Decoder":
    """The decoder of a format for rows with these columns, which `row_schema` gave.

    Options that the format does not have are not looked at.

    Raises:
        UnknownFormat: there is no such format, or an option has a value that it cannot have.
        UnusableSchema: the format cannot give a column of this type.
    """
    found = _format(format)
    made: Decoder = getattr(import_module(f"{_PACKAGE}.{found.module}"), found.decoder)(
        schema, options
    )
    return made


def _format(name: str) -> Format:
    found = FORMATS.get(name)
    if found is None:
        raise UnknownFormat(f"there is no format {name!r}; choose one of {', '.join(FORMATS)}")
    return found
