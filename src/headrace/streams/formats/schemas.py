"""Schemas in all the forms that people have them."""

import json
from typing import TYPE_CHECKING, TypeAlias, Union

from headrace.streams.formats.ddl import parse_ddl
from headrace.streams.formats.errors import UnusableSchema
from headrace.streams.formats.models import is_model, model_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SchemaLike: TypeAlias = Union[str, "StructType", type]
"""A DDL string, a StructType, its JSON, a dataclass or a pydantic model."""


def schema_of(given: SchemaLike) -> "StructType":
    """The columns that `given` describes, without a running Spark.

    Raises:
        UnusableSchema: it describes none, or a field has a type that no column can hold.
    """
    from pyspark.sql.types import StructType

    if isinstance(given, str):
        schema = _parsed_json(given) if given.lstrip().startswith("{") else parse_ddl(given)
    elif isinstance(given, StructType):
        schema = given
    elif is_model(given):
        schema = model_schema(given)
    else:
        raise UnusableSchema(
            f"{given!r} is no schema; give a DDL string such as 'user_id string, at timestamp', "
            f"a StructType, a dataclass or a pydantic model"
        )
    _refuse_twins(schema)
    return schema


def _parsed_json(text: str) -> "StructType":
    """A schema in Spark's own JSON, which unlike DDL can tell that an array holds no nulls."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        return StructType.fromJson(json.loads(text))
    except (ValueError, KeyError, TypeError, PySparkException) as error:
        raise UnusableSchema(
            f"schema {text[:60]!r} is not the JSON of a StructType ({error!r}); "
            f"write what its json() gives, or DDL"
        ) from None


def arrow_schema(schema: "StructType") -> "pa.Schema":
    """The same columns as Spark expects them from a data source: times in UTC microseconds."""
    from pyspark.sql.pandas.types import to_arrow_schema

    converted: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return converted


def nullable(schema: "StructType") -> "StructType":
    """The same columns, each of which may be null."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(field.name, field.dataType, True, field.metadata) for field in schema]
    )


def _refuse_twins(schema: "StructType") -> None:
    """Spark tells columns apart without regard to case, and would fail much later."""
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise UnusableSchema(
                f"the schema has two columns named {name} (upper and lower case are the same "
                f"to Spark); rename one"
            )
        seen.add(name.lower())
