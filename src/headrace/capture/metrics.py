"""The progress of running captures as text that Prometheus reads."""

from collections.abc import Callable, Iterable

from headrace.capture.progress import CaptureProgress, Condition
from headrace.prometheus import escaped, written

_Value = Callable[[CaptureProgress], float | None]

_UP = (Condition.READING, Condition.FOLLOWING)

_ABOUT: tuple[tuple[str, str, str, _Value], ...] = (
    ("changes_total", "counter", "Changes of rows in this run.", lambda each: each.changes),
    ("rows_read_total", "counter", "Rows that snapshots told.", lambda each: each.rows_read),
    ("transactions_total", "counter", "Transactions told.", lambda each: each.transactions),
    ("restarts_total", "counter", "Times it was started again.", lambda each: each.restarts),
    (
        "behind_bytes",
        "gauge",
        "Log of the database that is not confirmed yet.",
        lambda each: each.behind_bytes,
    ),
    (
        "retained_bytes",
        "gauge",
        "Log that the database keeps for the capture.",
        lambda each: each.retained_bytes,
    ),
    (
        "behind_seconds",
        "gauge",
        "How old the last change was when it was in its topic.",
        lambda each: None if each.behind_ms is None else each.behind_ms / 1000,
    ),
    (
        "snapshot_rows",
        "gauge",
        "Rows that snapshots have read so far.",
        lambda each: sum(table.rows for table in each.tables),
    ),
    (
        "snapshot_rows_expected",
        "gauge",
        "Rows that they are expected to read.",
        lambda each: sum(table.rows if table.done else table.estimate for table in each.tables),
    ),
    (
        "up",
        "gauge",
        "1 while it runs, 0 while it is paused, waits for another try or has failed.",
        lambda each: float(each.condition in _UP),
    ),
)
"""Name, kind, help and value of every metric."""


def exposition(captures: Iterable[CaptureProgress]) -> str:
    """The metrics of captures as Prometheus' text format."""
    captures = list(captures)
    lines = []
    for name, kind, about, value in _ABOUT:
        lines += [
            f"# HELP headrace_capture_{name} {about}",
            f"# TYPE headrace_capture_{name} {kind}",
        ]
        for each in captures:
            if (number := value(each)) is not None:
                labels = f'capture="{escaped(each.name)}"'
                lines.append(f"headrace_capture_{name}{{{labels}}} {written(number)}")
    return "\n".join(lines) + "\n"
