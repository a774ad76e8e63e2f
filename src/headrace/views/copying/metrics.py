"""The progress of running copies as text that Prometheus reads."""

from collections.abc import Callable, Iterable

from headrace.prometheus import escaped, written
from headrace.views.copying.progress import Condition, CopyProgress

_ABOUT: tuple[tuple[str, str, str, Callable[[CopyProgress], float | None]], ...] = (
    ("rows_total", "counter", "Rows that the store took in this run.", lambda each: each.rows),
    ("records_total", "counter", "Records read in this run.", lambda each: each.records),
    (
        "rejected_total",
        "counter",
        "Records that did not parse or were refused by the store.",
        lambda each: each.rejected,
    ),
    (
        "lost_total",
        "counter",
        "Records that were deleted before they were read.",
        lambda each: each.lost,
    ),
    ("batches_total", "counter", "Transactions of the store.", lambda each: each.batches),
    ("restarts_total", "counter", "Times it was started again.", lambda each: each.restarts),
    ("behind_records", "gauge", "Records that are not copied yet.", lambda each: each.behind),
    (
        "behind_seconds",
        "gauge",
        "How old the last record was when it was in the store.",
        lambda each: None if each.behind_ms is None else each.behind_ms / 1000,
    ),
    (
        "up",
        "gauge",
        "1 while it copies, 0 while it waits for another try or has ended.",
        lambda each: float(each.condition is Condition.COPYING),
    ),
)
"""Name, kind, help and value of every metric."""


def exposition(copies: Iterable[CopyProgress]) -> str:
    """The metrics of copies as Prometheus' text format."""
    copies = list(copies)
    lines = []
    for name, kind, about, value in _ABOUT:
        lines += [f"# HELP headrace_sink_{name} {about}", f"# TYPE headrace_sink_{name} {kind}"]
        for each in copies:
            if (number := value(each)) is not None:
                labels = f'sink="{escaped(each.name)}"'
                lines.append(f"headrace_sink_{name}{{{labels}}} {written(number)}")
    return "\n".join(lines) + "\n"
