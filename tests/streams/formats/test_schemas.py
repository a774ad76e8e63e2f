"""Schemas in every form that they are given in, and against Spark's own parser."""

import datetime
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import pyarrow as pa
import pydantic
import pytest
from pyspark.sql import types
from pyspark.sql.types import StructField, StructType

from headrace.streams.formats import UnusableSchema, arrow_schema, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DDL = [
    "id bigint",
    "id long, name string",
    "a tinyint, b byte, c smallint, d short, e int, f integer, g float, h real, i double",
    "a boolean, b binary, c date, d timestamp, e timestamp_ntz, f timestamp_ltz",
    "a decimal, b decimal(5), c dec(38, 18), d numeric(10,2)",
    "ID BigInt NOT NULL, Name STRING COMMENT 'what people say'",
    "tags array<string>, prices map<string, array<decimal(10,2)>>",
    "user struct<id: bigint, address: struct<street: string, `zip code` string NOT NULL>>",
    "`odd ``name``` int, `date` date, timestamp timestamp",
    "nested array<array<struct<a int, b map<string, struct<c: double>>>>>",
    "a: int, b: string",
    "struct<a: int, b: string>",
]


@pytest.mark.parametrize("text", DDL)
def test_a_ddl_string_means_what_it_means_to_spark(spark: "SparkSession", text: str):
    assert schema_of(text) == StructType.fromDDL(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "at its end"),
        ("id", "at its end"),
        ("id bigint,", "at its end"),
        ("id bigint name string", "at 'name string'"),
        ("id uuid", "at 'uuid'"),
        ("id array<", "at its end"),
        ("id array<int", "at its end"),
        ("id map<string>", "at '>'"),
        ("id decimal(40,2)", "precision of at most 38"),
        ("id bigint not", "NULL"),
        ("id bigint; drop", "at '; drop'"),
    ],
)
def test_a_wrong_ddl_string_is_shown_where_it_is_wrong(text: str, place: str):
    with pytest.raises(UnusableSchema) as refused:
        schema_of(text)
    assert place in str(refused.value)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    street: str
    number: int | None


@dataclass
class Order:
    id: int
    user: UUID
    colour: Colour
    size: Literal["s", "m"] | None
    price: Decimal
    at: datetime.datetime
    day: datetime.date
    raw: bytes
    ok: bool
    weight: float
    tags: list[str]
    maybe: list[int | None] | None
    counts: dict[str, int]
    address: Address
    small: Annotated[int, types.IntegerType()]


ORDER = schema_of(
    "id bigint not null, user string not null, colour string not null, size string, "
    "price decimal(38,18) not null, at timestamp not null, day date not null, "
    "raw binary not null, ok boolean not null, weight double not null"
).fields


def test_a_dataclass_has_its_fields_as_columns():
    schema = schema_of(Order)
    assert schema.fields[:10] == ORDER
    assert schema["tags"] == StructField(
        "tags", types.ArrayType(types.StringType(), False), nullable=False
    )
    assert schema["maybe"] == StructField("maybe", types.ArrayType(types.LongType(), True))
    assert schema["counts"].dataType == types.MapType(types.StringType(), types.LongType(), False)
    assert schema["address"].dataType == schema_of("street string not null, number bigint")
    assert schema["small"].dataType == types.IntegerType()


class Payment(pydantic.BaseModel):
    id: int
    amount: Annotated[Decimal, pydantic.Field(max_digits=10, decimal_places=2)]
    card_number: str | None = pydantic.Field(default=None, alias="cardNumber")
    address: Address | None = None


def test_a_pydantic_model_has_its_fields_as_columns():
    assert schema_of(Payment) == schema_of(
        "id bigint not null, amount decimal(10,2) not null, cardNumber string, "
        "address struct<street: string not null, number: bigint>"
    )


@dataclass
class Loop:
    inside: "Loop | None"


@dataclass
class Mixed:
    either: int | str


@dataclass
class Opaque:
    thing: object


@dataclass
class Wrapper:
    parts: list[Opaque]


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (Loop, "Loop.inside: Loop contains itself"),
        (Mixed, "Mixed.either is a int | str"),
        (Opaque, "Opaque.thing is a object"),
        (Wrapper, "Wrapper.parts[].thing is a object"),
        (42, "42 is no schema"),
        ('{"type": "array"}', "is not the JSON of a StructType"),
        ("{oops", "is not the JSON of a StructType"),
    ],
)
def test_what_no_column_can_hold_is_named(model: Any, named: str):
    with pytest.raises(UnusableSchema) as refused:
        schema_of(model)
    assert named in str(refused.value)


def test_names_that_differ_in_case_only_are_refused():
    with pytest.raises(UnusableSchema, match="two columns named ID"):
        schema_of("id int, ID int")


def test_arrow_columns_are_those_that_spark_exchanges():
    schema = arrow_schema(schema_of("at timestamp, d decimal(10,2), m map<string, int>"))
    assert schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert schema.field("d").type == pa.decimal128(10, 2)
    assert pa.types.is_map(schema.field("m").type)
