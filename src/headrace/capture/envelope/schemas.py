"""The Kafka Connect schemas of Debezium's envelope, as its JSON converter writes them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Schema = dict[str, Any]
"""A Kafka Connect schema in JSON."""

_SNAPSHOTS: Final = (
    "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
)


def _field(name: str, kind: str, *, optional: bool) -> Schema:
    return {"type": kind, "optional": optional, "field": name}


TRANSACTION_BLOCK: Final[Schema] = {
    "type": "struct",
    "fields": [
        _field("id", "string", optional=False),
        _field("total_order", "int64", optional=False),
        _field("data_collection_order", "int64", optional=False),
    ],
    "optional": True,
    "name": "event.block",
    "version": 1,
}
"""Where an event stands in its transaction."""


def source_schema(connector: str, more: Sequence[Mapping[str, Any]]) -> Schema:
    """The `source` block: what all databases tell, and what one tells beyond that."""
    snapshot = {
        **_field("snapshot", "string", optional=True),
        "name": "io.debezium.data.Enum",
        "version": 1,
        "parameters": {"allowed": _SNAPSHOTS},
        "default": "false",
    }
    return {
        "type": "struct",
        "fields": [
            _field("version", "string", optional=False),
            _field("connector", "string", optional=False),
            _field("name", "string", optional=False),
            _field("ts_ms", "int64", optional=False),
            snapshot,
            _field("db", "string", optional=False),
            _field("sequence", "string", optional=True),
            _field("ts_us", "int64", optional=True),
            _field("ts_ns", "int64", optional=True),
            *map(dict, more),
        ],
        "optional": False,
        "name": f"io.debezium.connector.{connector}.Source",
        "version": 1,
        "field": "source",
    }


def key_schema(topic: str, fields: Iterable[Schema]) -> Schema:
    """A record's key."""
    return {"type": "struct", "fields": list(fields), "optional": False, "name": f"{topic}.Key"}


def envelope_schema(topic: str, fields: Sequence[Schema], source: Schema) -> Schema:
    """A record's value."""
    row = {"type": "struct", "fields": list(fields), "optional": True, "name": f"{topic}.Value"}
    return {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            source,
            {**TRANSACTION_BLOCK, "field": "transaction"},
            _field("op", "string", optional=False),
            _field("ts_ms", "int64", optional=True),
            _field("ts_us", "int64", optional=True),
            _field("ts_ns", "int64", optional=True),
        ],
        "optional": False,
        "name": f"{topic}.Envelope",
        "version": 2,
    }


def message_schema(source: Schema) -> Schema:
    """A message that an application wrote into the log."""
    return {
        "type": "struct",
        "fields": [
            _field("op", "string", optional=False),
            _field("ts_ms", "int64", optional=True),
            source,
            {**TRANSACTION_BLOCK, "field": "transaction"},
            {
                "type": "struct",
                "fields": [
                    _field("prefix", "string", optional=True),
                    _field("content", "bytes", optional=True),
                ],
                "optional": False,
                "name": "io.debezium.connector.postgresql.Message",
                "version": 1,
                "field": "message",
            },
        ],
        "optional": False,
        "name": "io.debezium.connector.postgresql.MessageValue",
        "version": 1,
    }


MESSAGE_KEY: Final[Schema] = {
    "type": "struct",
    "fields": [_field("prefix", "string", optional=True)],
    "optional": False,
    "name": "io.debezium.connector.postgresql.MessageKey",
    "version": 1,
}
"""The key of that."""


TRANSACTION_SCHEMA: Final[Schema] = {
    "type": "struct",
    "fields": [
        _field("status", "string", optional=False),
        _field("id", "string", optional=False),
        _field("event_count", "int64", optional=True),
        {
            "type": "array",
            "items": {
                "type": "struct",
                "fields": [
                    _field("data_collection", "string", optional=False),
                    _field("event_count", "int64", optional=False),
                ],
                "optional": True,
                "name": "event.collection",
                "version": 1,
            },
            "optional": True,
            "field": "data_collections",
        },
        _field("ts_ms", "int64", optional=False),
    ],
    "optional": False,
    "name": "io.debezium.connector.common.TransactionMetadataValue",
    "version": 1,
}
"""The beginning or the end of a transaction."""

TRANSACTION_KEY: Final[Schema] = {
    "type": "struct",
    "fields": [_field("id", "string", optional=False)],
    "optional": False,
    "name": "io.debezium.connector.common.TransactionMetadataKey",
    "version": 1,
}
"""The key of that."""
