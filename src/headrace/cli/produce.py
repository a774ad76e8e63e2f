"""`headrace produce`: write records from arguments, a file or stdin to a topic."""

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.failures import FAILED
from headrace.cli.options import BootstrapOption, cluster_of
from headrace.cli.output import Progress, remark

if TYPE_CHECKING:
    from headrace.cli.record_input import LineReader
    from headrace.cli.sending import Sending

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class Acks(StrEnum):
    """When a record counts as written."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Compression(StrEnum):
    """How batches are compressed on their way and in the log."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


@app.command()
def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to write.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="VALUE", help="Records.  [default: lines of stdin]"),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read lines from a file, - is stdin."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="TEXT", help="Key of every record.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help="Lines are KEY<TEXT>VALUE."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Lines are records as `headrace tail --json` prints them."),
    ] = False,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header; repeatable."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", metavar="N", min=0, help="Partition.  [default: by key, or any]"
        ),
    ] = None,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="Codec.")
    ] = Compression.NONE,
    acks: Annotated[Acks, typer.Option(help="Who must have a record before it counts.")] = Acks.ALL,
    position: Annotated[
        bool,
        typer.Option("--position", help="Print where the last records are, for `after` of views."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Report only failures.")] = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Write records to a topic, one per argument or line.

    A record that cannot be written is reported and the others go on; the exit code is then 1.
    """
    from headrace.cli.record_input import line_reader
    from headrace.cli.sending import Sending

    if values and file is not None:
        raise typer.BadParameter("contradicts VALUE arguments.", param_hint="--file")
    if as_json and key_separator is not None:
        raise typer.BadParameter("contradicts --json.", param_hint="--key-separator")
    try:
        read = line_reader(
            as_json=as_json, key=key, key_separator=key_separator, headers=header or ()
        )
    except ValueError as error:
        raise typer.BadParameter(f"{error}.", param_hint="--header") from None
    sending = Sending(
        cluster_of(context, bootstrap),
        topic,
        acks=acks,
        compression=compression,
        partition=partition,
        positions=position,
        progress=Progress(shown=not quiet),
    )
    with ExitStack() as resources:
        interrupted = _send_all(_lines(values, file, resources, quiet=quiet), read, sending)
    if not quiet:
        records = "1 record" if sending.sent == 1 else f"{sending.sent:,} records"
        failures = f", {sending.failed:,} failed" if sending.failed else ""
        remark(f"Produced {records} to {topic}{failures}.")
    if position and sending.position:
        print(sending.position)
    if interrupted:
        raise KeyboardInterrupt
    if sending.failed:
        raise typer.Exit(FAILED)


def _lines(
    values: list[str] | None, file: Path | None, resources: ExitStack, *, quiet: bool
) -> Iterable[bytes]:
    from headrace.cli.record_input import lines_of

    if values:
        return (value.encode() for value in values)
    if file is not None and file != Path("-"):
        return lines_of(resources.enter_context(file.open("rb")))
    if sys.stdin.isatty() and not quiet:
        remark("Type one record per line; Ctrl-D ends.")
    return lines_of(sys.stdin.buffer)


def _send_all(lines: Iterable[bytes], read: "LineReader", sending: "Sending") -> bool:
    """Send every line; True if Ctrl-C cut it short. What was read by then is still delivered."""
    interrupted = False
    try:
        for number, line in enumerate(lines, 1):
            try:
                record = read(line)
            except ValueError as error:
                sending.fail(number, str(error))
            else:
                sending.send(number, record)
    except KeyboardInterrupt:
        interrupted = True
    sending.finish()
    return interrupted
