"""A case played in a harness: what its outputs really have, wherever it says what they should."""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.testing.golden.cases import Act, Expect, GoldenCase, Send
from headrace.testing.golden.cells import read_cell, write_cell
from headrace.testing.golden.errors import GoldenFileError
from headrace.testing.golden.tables import Row
from headrace.testing.harness.collected import Collected
from headrace.testing.harness.errors import HarnessError
from headrace.testing.harness.flow_harness import BEGINNING, FlowHarness

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from headrace.streams.flow import Flow

_FOR_THE_HARNESS = ("now", "tasks")
"""Settings of a case that are the harness' and not the flow's."""


@dataclass(slots=True)
class Played:
    """What came of a case."""

    seen: dict[Expect, list[Row]] = field(default_factory=dict)
    """The rows that were new where some were expected."""

    unexpected: dict[str, list[Row]] = field(default_factory=dict)
    """The rows of outputs that the case does not speak of to the end."""


def play(
    case: GoldenCase, make_flow: "Callable[..., Flow]", spark: "SparkSession | None"
) -> Played:
    """Run a case: `make_flow` gets its settings as keyword arguments."""
    given = {name: text for name, text in case.settings.items() if name not in _FOR_THE_HARNESS}
    harness = FlowHarness(
        make_flow(**given),
        spark=spark,
        now=case.settings.get("now", BEGINNING),
        tasks=int(case.settings.get("tasks", "1")),
    )
    played = Played()
    with harness:
        for part in case.parts:
            try:
                if isinstance(part, Expect):
                    new = harness.take_collected(part.output)
                    played.seen[part] = [_row(each, part.columns) for each in new]
                else:
                    _do(harness, part)
            except HarnessError as error:
                raise GoldenFileError(case.path, part.line, str(error)) from error
        if harness.waiting:
            raise GoldenFileError(
                case.path,
                case.line,
                f"{harness.waiting} events of case {case.name} are sent and never read; write "
                "`--- step` below them",
            )
        for name, rows in harness.untaken().items():
            played.unexpected[name] = [_row(each, ()) for each in rows]
    return played


def _do(harness: FlowHarness, part: Send | Act) -> None:
    if isinstance(part, Send):
        for row in part.rows:
            _send(harness, part.topic, dict(row))
        return
    match part.verb:
        case "step":
            harness.step()
        case "run":
            harness.run()
        case "advance":
            harness.advance(part.argument)
        case "kill":
            harness.kill(part.argument.removeprefix("after ").strip() or None)
        case "restart":
            harness.restart()


def _send(harness: FlowHarness, topic: str, row: Row) -> None:
    options: dict[str, Any] = {
        name.removeprefix("@"): row.pop(name) for name in list(row) if name.startswith("@")
    }
    event: Any = row
    if "value" in options:
        value = options.pop("value")
        event = value if value is None or isinstance(value, str) else write_cell(value)
    if "key" in options:
        options["key"] = _text(options["key"])
    unknown = options.keys() - {"key", "headers", "partition", "offset", "timestamp"}
    if unknown:
        raise HarnessError(
            f"There is no column @{min(unknown)}; there are @key, @value, @headers, @partition, "
            "@offset and @timestamp."
        )
    harness.send(topic, event, **options)


def _row(found: Collected, columns: tuple[str, ...]) -> Row:
    """A row as a golden file has it, with those columns of the record that it asks for."""
    row = dict(found.row)
    for name in columns:
        if name.startswith("@") and found.record is not None:
            row[name] = getattr(found.record, name.removeprefix("@"), None)
    return {name: read_cell(write_cell(value)) for name, value in row.items()}


def _text(key: object) -> str:
    """The text of a record's key: of several columns, their JSON."""
    return json.dumps(key) if isinstance(key, dict | list) else str(key)
