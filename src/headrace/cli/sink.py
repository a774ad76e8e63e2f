"""`headrace sink TOPIC --to URL`: keep the rows of topics in stores until Ctrl-C or SIGTERM."""

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import BootstrapOption, assignments_from, settings_of
from headrace.cli.output import remark
from headrace.cli.running import (
    MetricsOption,
    VerboseOption,
    log_to_stderr,
    run_until_signal,
    tables_of,
    words_of,
)

if TYPE_CHECKING:
    from headrace.views.copying.progress import CopyProgress

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def sink(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="The topic.  [default: the sinks of headrace.toml]",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="URL", help="The store, such as sqlite:///shop.db."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="TABLE", help="The table there, if not as the topic."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            "-k",
            metavar="COLUMN",
            help="A column that tells rows apart; may be repeated. Without, rows are added.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the word that everybody knows
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="json, debezium, avro, json_schema, text or raw.  [default: json]",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", metavar="DDL", help='The columns, such as "id bigint, name string".'
        ),
    ] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            "--dead-letters",
            metavar="TOPIC",
            help="Where records go that do not parse or are refused.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="What its position is kept under."),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other setting of a [[sink]]; may be repeated.",
            show_default=False,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="An option of the format, such as registry=URL; may be repeated.",
            show_default=False,
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when all is copied that is there now.")
    ] = False,
    metrics: MetricsOption = None,
    verbose: VerboseOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Keep the rows of a topic in a store, without Spark.

    Exactly once, into PostgreSQL, MariaDB, SQLite, DuckDB, Redis, OpenSearch or a directory of
    Parquet files.
    """
    from headrace.settings import SinkSettings
    from headrace.views.copying.metrics import exposition
    from headrace.views.copying.running import CopyRuns

    log_to_stderr(verbose=verbose, otherwise="ERROR")
    settings = settings_of(context, {"kafka.bootstrap": bootstrap, "sink.metrics": metrics})
    said = {
        "to": to,
        "table": table,
        "key": words_of(key),
        "format": format,
        "schema": schema,
        "dead_letters": dead_letters,
        "name": name,
        "options": assignments_from(option or [], "--option"),
        **assignments_from(given or [], "--set"),
    }
    sinks = tables_of(
        SinkSettings,
        settings.sink.sinks,
        None if topic is None else {"topic": topic},
        {key: value for key, value in said.items() if value},
        table="sink",
        what="a topic",
        argument="TOPIC",
    )
    runs = CopyRuns(sinks, settings.kafka, once=once)

    def progress() -> "list[CopyProgress]":
        return [run.progress for run in runs.runs]

    try:
        run_until_signal(
            runs,
            lines=lambda: [line_of(each) for each in progress()],
            begun=lambda: [
                f"{each.name} copies; Ctrl-C ends" for each in progress() if each.batches
            ],
            metrics=settings.sink.metrics,
            exposition=lambda: exposition(progress()),
        )
    finally:
        for each in progress():
            remark(line_of(each))


def line_of(progress: "CopyProgress") -> str:
    """A copy in a line."""
    line = f"{progress.name}: {progress.condition}, {progress.rows:,} rows"
    if progress.rejected:
        line += f", {progress.rejected:,} rejected"
    if progress.lost:
        line += f", {progress.lost:,} lost"
    if progress.behind:
        line += f", {progress.behind:,} records behind"
    return f"{line}, {progress.failure}" if progress.failure else line
