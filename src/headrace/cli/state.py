"""`headrace state`: what flows keep between batches."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.options import JsonOption, settings_of
from headrace.cli.output import Cell, print_json, print_table, remark
from headrace.cli.transfer import size_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.streams.running.kept import KeptTable, QueryState
    from headrace.streams.state.inspecting import OperatorState, TableState

app = typer.Typer(
    help="Look into the state that flows keep.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

_LIMIT = 20


@app.callback()
def state() -> None:
    """Look into the state that flows keep."""


@app.command()
def show(
    context: typer.Context,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="Its name.")],
    operator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Show the rows of this operator; its output's name will do.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show the rows of this table.", show_default=False),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE",
            help="Show the rows of this key: VALUE, or COLUMN=VALUE for each of its columns.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"Rows of each table, at most.  [default: {_LIMIT}]"),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            metavar="NAME",
            help="Of this version of the flow instead of the current one.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    checkpoints: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where flows keep what they know, if not as set."),
    ] = None,
) -> None:
    """Show what a flow keeps: its operators, their tables with keys and sizes, and watermarks.

    With --operator, --table, --key or --limit the rows themselves. What is shown is the state after
    the last batch that is done; the flow may be running.
    """
    from headrace.streams.running.kept import chosen, kept_by, tables_of, version_of
    from headrace.streams.running.places import root_of
    from headrace.streams.session import spark_session, stateful_session

    settings = settings_of(context, {"streams.checkpoints": checkpoints}).streams
    root = root_of(settings, lambda: spark_session(settings))
    wanted = version_of(root, flow, version)
    spark = spark_session(settings)
    queries = kept_by(spark, root, wanted)
    if operator is not None:
        queries = chosen(queries, operator)
    if operator is None and table is None and not key and limit is None:
        _print_operators(queries, as_json=as_json)
        return
    tables = tables_of(queries, table)
    _print_rows(stateful_session(spark), tables, key or [], limit or _LIMIT, as_json=as_json)


def _print_operators(queries: "list[QueryState]", *, as_json: bool) -> None:
    if as_json:
        print_json([_operator_json(query, each) for query in queries for each in query.operators])
    else:
        rows = [
            _table_row(query, operator, table)
            for query in queries
            for operator in query.operators
            for table in operator.tables
        ]
        headings = ("OUTPUT", "OPERATOR", "TABLE", "KEY", "ROWS", "SIZE", "WATERMARK", "HELD BY")
        if rows:
            print_table(headings, rows)
    for query in queries:
        for each in query.by_spark:
            remark(f"Output {query.output} has state of Spark's own: {each}.")


def _table_row(
    query: "QueryState", operator: "OperatorState", table: "TableState"
) -> tuple[Cell, ...]:
    from headrace.streams.time.standing import standing_of

    standing = standing_of(operator.memory)
    return (
        query.output,
        operator.name,
        table.name,
        ", ".join(table.key),
        table.rows,
        size_text(table.bytes),
        _moment(operator.watermark),
        None if standing is None else standing.holding,
    )


def _operator_json(query: "QueryState", operator: "OperatorState") -> dict[str, object]:
    from headrace.streams.time.standing import standing_of

    standing = standing_of(operator.memory)
    return {
        "output": query.output,
        "operator": operator.name,
        "buckets": operator.buckets,
        "watermark": _moment(operator.watermark),
        "held_by": None if standing is None else standing.holding,
        "sources": [
            {"source": each.name, "bound": _moment(each.bound), "heard_of": _moment(each.active)}
            for each in (() if standing is None else standing.sources)
        ],
        "tables": [
            {
                "table": each.name,
                "key": each.key,
                "columns": each.columns,
                "rows": each.rows,
                "bytes": each.bytes,
            }
            for each in operator.tables
        ],
    }


def _print_rows(
    spark: "SparkSession",
    tables: "list[KeptTable]",
    key: list[str],
    limit: int,
    *,
    as_json: bool,
) -> None:
    found = [(each, _rows(spark, each, key, limit)) for each in tables]
    if as_json:
        print_json(
            [
                {
                    "output": table.output,
                    "operator": table.operator.name,
                    "table": table.name,
                    "rows": rows,
                }
                for table, rows in found
            ]
        )
        return
    for table, rows in found:
        remark(f"{table.output}, {table.operator.name}, {table.name}: {_told(rows, limit)}")
        if rows:
            print_table(
                [each.upper() for each in rows[0]],
                [[_cell(each) for each in row.values()] for row in rows],
            )


def _rows(
    spark: "SparkSession", table: "KeptTable", key: list[str], limit: int
) -> list[dict[str, Any]]:
    rows = table.rows(spark, _key_of(table, key)).limit(limit).collect()
    return [{name: _shown(name, value) for name, value in row.asDict().items()} for row in rows]


def _key_of(table: "KeptTable", given: list[str]) -> Mapping[str, str]:
    """What was given, by column; a value alone is of the only column, or of the first."""
    found: dict[str, str] = {}
    for each in given:
        column, equals, value = each.partition("=")
        if equals and column in table.key:
            found[column] = value
        else:
            found[table.key[0]] = each
    return found


def _told(rows: list[dict[str, Any]], limit: int) -> str:
    if not rows:
        return "no rows"
    return f"the first {limit} rows" if len(rows) == limit else f"{len(rows)} rows"


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and name.removeprefix("_").startswith("window_"):
        return _moment(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value)} bytes"
    return value if isinstance(value, (int, float, str, list, dict)) else str(value)


def _cell(value: Any) -> Cell:
    return value if isinstance(value, int) and not isinstance(value, bool) else _text(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _moment(microseconds: int | None) -> str | None:
    """A time as people read it; None, and what no calendar has, stays None."""
    if microseconds is None:
        return None
    try:
        moment = datetime.fromtimestamp(microseconds / 1_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return f"{moment.replace(tzinfo=None).isoformat(sep=' ')}Z"
