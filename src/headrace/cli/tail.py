"""`headrace tail`: show the records of a topic, and follow it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from headrace.cli.options import BootstrapOption, cluster_of, now_ms, position_from
from headrace.cli.output import complain, wants_colour
from headrace.kafka import (
    AtOffset,
    AtTime,
    BeforeEnd,
    Latest,
    Partition,
    Position,
    Reader,
    UnknownPartition,
    find_offsets,
    partitions_of,
)

if TYPE_CHECKING:
    from confluent_kafka import Message

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_SHOWN_BY_DEFAULT = 10
"""Records per partition that a plain `headrace tail TOPIC` begins with."""


@app.command()
def tail(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="POSITION",
            help="Where to begin: earliest, latest, an offset, -100 for the last hundred, a time "
            "(2026-03-01T12:00) or -10m for ten minutes ago.  [default: the last ten]",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="POSITION",
            help="Where to stop, exclusive: latest, an offset or a time.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", "-f/-F", help="Wait for records to come.")
    ] = True,
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            "-n",
            metavar="N",
            min=1,
            help="Stop after so many records.",
            show_default=False,
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            "-p",
            metavar="N",
            min=0,
            help="Only this one; repeatable.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print values alone, as they are.")] = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show the records of a topic and follow it until Ctrl-C.

    Takes part in no consumer group and commits nothing. With --until or --no-follow it stops there.
    """
    if as_json and raw:
        raise typer.BadParameter("contradicts --json.", param_hint="--raw")
    begin = position_from(start, "--from") if start else BeforeEnd(count or _SHOWN_BY_DEFAULT)
    end = _end(until, follow=follow)
    cluster = cluster_of(context, bootstrap)
    partitions = _chosen(partitions_of(cluster, topic), partition or [])
    offsets = find_offsets(cluster, partitions, begin)
    if isinstance(begin, AtOffset):
        _report_moved(offsets, begin.offset)
    write = _writer(as_json=as_json, raw=raw)
    with (
        suppress(KeyboardInterrupt),
        Reader(
            cluster,
            offsets,
            end=None if end is None else find_offsets(cluster, partitions, end),
            on_outage=lambda reason: complain(f"The cluster does not answer: {reason}. Waiting."),
            on_stall=_report_stalled,
        ) as reader,
    ):
        _copy(reader.batches(), write, count)


def _end(until: str | None, *, follow: bool) -> Position | None:
    if until is None:
        return None if follow else Latest()
    end = position_from(until, "--until")
    if isinstance(end, AtTime) and end.timestamp > now_ms():
        raise typer.BadParameter("lies in the future; --count can end it.", param_hint="--until")
    return end


def _chosen(partitions: list[Partition], numbers: list[int]) -> list[Partition]:
    for number in numbers:
        if number >= len(partitions):
            raise UnknownPartition(partitions[0].topic, number, len(partitions))
    return [each for each in partitions if each.number in numbers] if numbers else partitions


def _report_moved(offsets: dict[Partition, int], wanted: int) -> None:
    for partition, offset in offsets.items():
        if offset > wanted:
            complain(f"{partition} begins at {offset}; what was before is deleted.")


def _report_stalled(partitions: list[Partition]) -> None:
    complain(
        f"There is more in {', '.join(map(str, partitions))}, but it does not come: the broker "
        "cannot read it, or brings it back from an archive. The broker's log says more. Waiting."
    )


def _copy(
    batches: "Iterator[list[Message]]", write: "Callable[[Message], None]", count: int | None
) -> None:
    left = count
    for batch in batches:
        for message in batch[:left]:
            write(message)
        if batch:
            sys.stdout.flush()
        if left is not None:
            left -= len(batch)
            if left <= 0:
                return


def _writer(*, as_json: bool, raw: bool) -> "Callable[[Message], None]":
    """How one record is written to stdout."""
    output = sys.stdout.buffer
    if raw:
        return lambda message: _write_line(output, message.value() or b"")
    if as_json:
        from headrace.cli.record_json import encode_record

        return lambda message: _write_line(output, encode_record(message))
    from headrace.cli.record_text import RecordText

    text = RecordText(coloured=wants_colour(sys.stdout))
    return lambda message: print(text.format(message))


def _write_line(output: BinaryIO, line: bytes) -> None:
    output.write(line)
    output.write(b"\n")
