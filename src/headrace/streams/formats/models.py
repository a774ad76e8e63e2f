"""Schemas as Python classes: dataclasses and pydantic models become StructTypes.

A field that is not optional is a column that is not nullable: records without it are rejected.
"""

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.formats.errors import UnusableSchema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

_NAMES: Final[dict[type, str]] = {
    bool: "BooleanType",
    int: "LongType",
    float: "DoubleType",
    str: "StringType",
    uuid.UUID: "StringType",
    bytes: "BinaryType",
    datetime.datetime: "TimestampType",
    datetime.date: "DateType",
}
_DECIMAL: Final = (38, 18)
"""Precision and scale of a plain `Decimal`, as Spark has them for Python's."""


def is_model(given: object) -> bool:
    """Whether `given` is a class whose fields can be columns."""
    return isinstance(given, type) and (
        dataclasses.is_dataclass(given) or hasattr(given, "model_fields")
    )


def model_schema(model: type) -> "StructType":
    """The columns of a dataclass or a pydantic model; a pydantic alias is the column's name.

    Raises:
        UnusableSchema: a field has a type that no column can hold; the message names it.
    """
    return _struct(model, model.__name__, ())


def _struct(model: type, path: str, above: tuple[type, ...]) -> "StructType":
    from pyspark.sql.types import StructType

    if model in above:
        raise UnusableSchema(
            f"{path}: {model.__name__} contains itself, and columns cannot; "
            f"give the field the type str and keep its JSON"
        )
    columns = [
        _column(name, annotation, f"{path}.{name}", (*above, model))
        for name, annotation in _annotations(model).items()
    ]
    if not columns:
        raise UnusableSchema(f"{path} has no fields; give it at least one")
    return StructType(columns)


def _annotations(model: type) -> dict[str, Any]:
    """Names of columns and what they are annotated with, `Annotated` included."""
    try:
        hints = typing.get_type_hints(model, include_extras=True)
    except NameError as error:
        raise UnusableSchema(
            f"{model.__name__}: {error}; its annotations must name what its module knows"
        ) from error
    if dataclasses.is_dataclass(model):
        return {field.name: hints[field.name] for field in dataclasses.fields(model)}
    fields: Mapping[str, Any] = model.model_fields  # type: ignore[attr-defined]
    return {
        field.validation_alias if isinstance(field.validation_alias, str) else name: hints[name]
        for name, field in fields.items()
    }


def _column(name: str, annotation: Any, path: str, above: tuple[type, ...]) -> "StructField":
    from pyspark.sql.types import StructField

    data_type, optional = _data_type(annotation, path, above)
    return StructField(name, data_type, nullable=optional)


def _data_type(annotation: Any, path: str, above: tuple[type, ...]) -> "tuple[DataType, bool]":
    """The column type of an annotation, and whether it allows None."""
    from pyspark.sql import types as spark

    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(arguments, path, above)
    if origin in (typing.Union, types.UnionType):
        members = [member for member in arguments if member is not type(None)]
        if len(members) == 1:
            return _data_type(members[0], path, above)[0], True
        raise _unmapped(annotation, path, "a column has one type; name one besides None")
    if origin is typing.Literal:
        return _of_values(arguments, annotation, path), None in arguments
    if origin in (list, set, frozenset, Sequence) or (
        origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis
    ):
        element, optional = _data_type(arguments[0], f"{path}[]", above)
        return spark.ArrayType(element, optional), False
    if origin in (dict, Mapping):
        key, _ = _data_type(arguments[0], f"{path} key", above)
        value, optional = _data_type(arguments[1], f"{path}[…]", above)
        return spark.MapType(key, value, optional), False
    if not isinstance(annotation, type):
        raise _unmapped(annotation, path, "")
    return _of_class(annotation, path, above), False


def _of_class(kind: type, path: str, above: tuple[type, ...]) -> "DataType":
    from pyspark.sql import types as spark

    if is_model(kind):
        return _struct(kind, path, above)
    if issubclass(kind, enum.Enum):
        return _of_values(tuple(member.value for member in kind), kind, path)
    if issubclass(kind, decimal.Decimal):
        return spark.DecimalType(*_DECIMAL)
    for known in kind.__mro__:
        if known in _NAMES:
            simple: DataType = getattr(spark, _NAMES[known])()
            return simple
    raise _unmapped(kind, path, "")


def _of_values(values: tuple[Any, ...], annotation: Any, path: str) -> "DataType":
    """The type that all values of an enum or a Literal have."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) != 1:
        raise _unmapped(annotation, path, "its values must all have one type")
    return _of_class(kinds.pop(), path, ())


def _annotated(
    arguments: tuple[Any, ...], path: str, above: tuple[type, ...]
) -> "tuple[DataType, bool]":
    """`Annotated[T, …]`: a Spark type beside T decides; so do pydantic's digits of a Decimal."""
    from pyspark.sql import types as spark

    kind, *extras = arguments
    data_type, optional = _data_type(kind, path, above)
    for extra in extras:
        if isinstance(extra, spark.DataType):
            return extra, optional
        for constraint in (extra, *getattr(extra, "metadata", ())):
            digits = getattr(constraint, "max_digits", None)
            if digits is not None and isinstance(data_type, spark.DecimalType):
                data_type = spark.DecimalType(
                    digits, getattr(constraint, "decimal_places", None) or 0
                )
    return data_type, optional


def _unmapped(annotation: Any, path: str, remark: str) -> UnusableSchema:
    named = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    advice = remark or (
        "use bool, int, float, str, bytes, Decimal, datetime, date, an enum, a list, a dict or "
        "another model, or Annotated[…, a type of pyspark.sql.types]"
    )
    return UnusableSchema(f"{path} is a {named}, which no column can hold: {advice}")
