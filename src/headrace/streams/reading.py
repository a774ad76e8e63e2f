"""How the arguments of `flow.stream` and `flow.table` become the description of a read."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.names import checked_choice, checked_name, did_you_mean
from headrace.streams.plan import ReadTopics, is_column
from headrace.streams.positions import Position, position_option

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headrace.streams.formats import SchemaLike
    from headrace.streams.time import Watermark

INCLUDED = ("topic", "partition", "offset", "timestamp", "key", "headers")
"""What a row may tell about its record."""


def described_read(
    topics: str | Sequence[str] | None,
    schema: "SchemaLike | None",
    *,
    pattern: str | None = None,
    time: str | None = None,
    watermark: "Watermark | None" = None,
    key: tuple[str, ...] = (),
    valid_from: str | None = None,
    format: str,  # noqa: A002 - the word that everybody knows
    start: Position = "earliest",
    dead_letters: str | None,
    on_error: str,
    on_gap: str = "fail",
    include: Sequence[str] = (),
    max_records_per_batch: int | None = None,
    max_records_per_second: int | None = None,
    options: Mapping[str, str] | None,
) -> ReadTopics:
    """The read that is meant; InvalidFlow or FormatError says which argument is wrong."""
    from headrace.streams.formats import schema_of

    names = (topics,) if isinstance(topics, str) else tuple(topics or ())
    if bool(names) == (pattern is not None):
        raise InvalidFlow("A stream reads topics, or the topics of a pattern: give one of the two.")
    checked_choice("on_error", on_error, ("fail", "skip"))
    checked_choice("on_gap", on_gap, ("fail", "skip"))
    for each in include:
        checked_choice("include", each, INCLUDED)
    given: dict[str, object] = {
        "on_error": "skip" if dead_letters is not None else on_error,
        "on_gap": on_gap,
        "include": ",".join(include) or None,
        "max_records_per_batch": _positive("max_records_per_batch", max_records_per_batch),
        "max_records_per_second": _positive("max_records_per_second", max_records_per_second),
    }
    # A table is of its rows, not of what was said about them.
    usual = {"unwrap": "true"} if key and format == "debezium" else {}
    format_options = usual | {name: str(value) for name, value in (options or {}).items()}
    read = ReadTopics(
        topics=tuple(checked_name(each, "topic") for each in names),
        pattern=pattern,
        format=format,
        schema=None if schema is None else schema_of(schema),
        rows=_rows(format, schema, format_options),
        options={
            **{name: str(value) for name, value in given.items() if value is not None},
            **format_options,
        },
        start=position_option(start, "start"),
        time=time,
        watermark=watermark,
        key=key,
        valid_from=valid_from,
        dead_letters=None if dead_letters is None else checked_name(dead_letters, "topic"),
    )
    _require_own(read, "time", () if time is None else (time,))
    _require_own(read, "key", key)
    _require_own(read, "valid_from", () if valid_from is None else (valid_from,))
    if watermark is not None:
        if time is None:
            raise InvalidFlow('A watermark is of event time: say which column that is, time="at".')
        named = (watermark.by, watermark.until)
        columns = tuple(each for each in named if each is not None and is_column(each))
        _require_own(read, "watermark", columns)
    return read


def _rows(
    format: str,  # noqa: A002
    schema: "SchemaLike | None",
    options: Mapping[str, str],
) -> "StructType | None":
    """The columns that rows will have; None if a registry is to be asked, which needs a network."""
    from headrace.streams.formats import row_schema

    return None if "registry" in options else row_schema(format, schema, options)


def _require_own(read: ReadTopics, name: str, columns: tuple[str, ...]) -> None:
    known = read.columns
    for each in columns:
        if known is not None and each not in known:
            raise UnknownColumn(f"{name}={each!r} is no column; {did_you_mean(each, known)}")


def _positive(name: str, number: int | None) -> int | None:
    if number is not None and number < 1:
        raise InvalidFlow(f"{name}={number} must be at least 1.")
    return number
