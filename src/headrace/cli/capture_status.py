"""Captures as people see them from elsewhere."""

from typing import TYPE_CHECKING, Any

from headrace.cli.options import now_ms
from headrace.cli.output import duration, print_json, print_table, remark

if TYPE_CHECKING:
    from headrace.capture.state import CaptureState, Wishes

_SILENT_MS = 60_000
"""How long a capture may say nothing before it counts as gone."""


def show(captures: "list[tuple[CaptureState, Wishes]]", *, as_json: bool) -> None:
    """Print one line per capture."""
    if as_json:
        print_json([_as_json(state, wishes) for state, wishes in captures])
    elif captures:
        headings = ("CAPTURE", "CONDITION", "CHANGES", "BEHIND", "LOG KEPT", "TABLES READ", "HEARD")
        print_table(headings, [_line(state) for state, _ in captures])
        for state, _ in captures:
            if failure := state.status.get("failure"):
                remark(f"{state.name}: {failure}")
    else:
        remark("No capture has run on this cluster yet.")


def condition(state: "CaptureState", now: int) -> str:
    """What a capture is doing, as far as it was heard."""
    said: str = state.status.get("condition", "unknown")
    silent = now - state.status.get("time_ms", 0) > _SILENT_MS
    return "silent" if silent and said not in ("paused", "stopped", "failed") else said


def _line(state: "CaptureState") -> tuple[str | int | None, ...]:
    status, now = state.status, now_ms()
    done = sum(task.done for task in state.tasks.values())
    return (
        state.name,
        condition(state, now),
        status.get("changes"),
        duration(status.get("behind_ms")),
        _size(status.get("retained_bytes")),
        f"{done} of {len(state.tasks)}",
        duration(now - status["time_ms"]) if "time_ms" in status else None,
    )


def _size(count: int | None) -> str | None:
    if count is None:
        return None
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count} {unit}"
        count //= 1000
    return f"{count} TB"


def _as_json(state: "CaptureState", wishes: "Wishes") -> dict[str, Any]:
    return {
        "capture": state.name,
        "prefix": state.prefix,
        "position": state.position,
        "paused": wishes.paused,
        **state.status,
        "condition": condition(state, now_ms()),
        "tables": [
            {
                "table": str(task.table),
                "rows": task.rows,
                "expected": max(task.estimate, task.rows),
                "done": task.done,
            }
            for task in state.tasks.values()
        ],
    }
