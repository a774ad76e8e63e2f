"""What a flow tells the source."""

from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headrace.settings import KafkaSettings
from headrace.streams import Flow
from headrace.streams.connectors import options_of
from headrace.streams.formats import schema_of
from headrace.streams.plan import ReadTopics
from headrace.streams.source import parse_options
from headrace.streams.source.schema import source_schema
from tests.streams.formats.registry_server import registry_server

SCHEMA = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("a`b, c", StringType(), metadata={"comment": "it's odd"}),
        StructField(
            "user", StructType([StructField("name", StringType(), nullable=False)]), nullable=False
        ),
        StructField("tags", ArrayType(StringType(), containsNull=False)),
        StructField("counts", MapType(StringType(), IntegerType(), valueContainsNull=False)),
    ]
)


def node_of(*args: object, **options: object) -> ReadTopics:
    node = Flow("shop").stream(*args, **options).node  # type: ignore[arg-type]
    assert isinstance(node, ReadTopics)
    return node


def test_the_source_has_every_word_of_the_schema():
    told = options_of(node_of("orders", SCHEMA), KafkaSettings())
    assert source_schema(parse_options(told)) == SCHEMA


def test_a_schema_that_only_a_registry_knows_is_asked_for_once_and_told():
    avro = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    with registry_server() as registry:
        registry.register("orders-value", avro)
        node = node_of("orders", format="avro", options={"registry": registry.address})
        told = options_of(node, KafkaSettings())
        assert registry.requests == ["/subjects/orders-value/versions/latest"]
    assert schema_of(told["schema"]) == schema_of("id bigint not null")
