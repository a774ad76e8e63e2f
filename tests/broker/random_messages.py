"""Random but valid protocol messages, made from kio's own schemas."""

import dataclasses
import datetime
import io
import random
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.constants import EntityType

_INTEGERS = {"int8": 7, "int16": 15, "uint16": 15, "int32": 31, "uint32": 31, "int64": 63}

Choices = Mapping[str, Sequence[Any]]
"""Values to choose from, by the name of a field or by its type in the protocol."""


def request_class(api: str, version: int) -> Any:
    """The request class of an API in one version."""
    module = load_entity_module(api, version, EntityType.request)
    return next(
        entity
        for entity in vars(module).values()
        if isinstance(entity, type) and getattr(entity, "__type__", None) is EntityType.request
    )


def random_entity(entity: Any, source: random.Random, choices: Choices | None = None) -> Any:
    """An instance with random values in every field, or with those there is a choice of."""
    return entity(
        **{
            field.name: _value(field, field.type, source, choices or {})
            for field in dataclasses.fields(entity)
        }
    )


def encoded(instance: Any) -> bytes:
    """The bytes of a message without its header."""
    buffer = io.BytesIO()
    entity_writer(type(instance))(buffer, instance)
    return buffer.getvalue()


def _value(field: Any, declared: Any, source: random.Random, choices: Choices) -> Any:
    if isinstance(declared, types.UnionType):
        inner = next(part for part in typing.get_args(declared) if part is not type(None))
        kind = field.metadata.get("kafka_type")
        # kio writes a null uuid as zeros, but other nulls only where the schema allows them.
        if kind != "records" and source.random() < 0.2:
            return None
        return _value(field, inner, source, choices)
    if typing.get_origin(declared) is tuple:
        inner = typing.get_args(declared)[0]
        return tuple(_value(field, inner, source, choices) for _ in range(source.randrange(4)))
    if dataclasses.is_dataclass(declared):
        return random_entity(declared, source, choices)
    kind = field.metadata["kafka_type"]
    chosen = choices.get(field.name) or choices.get(kind)
    return _primitive(kind, source) if chosen is None else source.choice(chosen)


def _primitive(kind: str, source: random.Random) -> Any:
    if kind in _INTEGERS:
        return source.randrange(2 ** source.randrange(1, _INTEGERS[kind]))
    match kind:
        case "bool":
            return source.random() < 0.5
        case "string":
            return "x" * source.choice((0, 1, 5, 200))
        case "bytes" | "records":
            return source.randbytes(source.choice((0, 1, 30, 300)))
        case "uuid":
            return uuid.UUID(int=source.getrandbits(128))
        case "float64":
            return source.random()
        case "error_code":
            return ErrorCode.none
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=source.randrange(10**6))
    raise AssertionError(f"no random value for {kind}")
