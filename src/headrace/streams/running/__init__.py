"""Running flows: `preparing` makes queries of a description and refuses what does not fit.

Then read `flow_run` (the queries side by side), `query` (one of them: started, watched, started
again), `checkpoints` (what is stored, and whose it is) and `runner` (signals, metrics, display).

Names are found when they are first asked for: whoever only reads what a flow has stored, as the
console does, needs nothing of what runs one, neither Polars nor compiled kernels.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.streams.running.errors import (
        CheckpointMismatch,
        FlowAlreadyRunning,
        FlowRefused,
        QueryGivenUp,
    )
    from headrace.streams.running.flow_run import FlowRun, RunReport
    from headrace.streams.running.progress import QueryProgress, QueryState
    from headrace.streams.running.runner import run, run_all

__all__ = [
    "CheckpointMismatch",
    "FlowAlreadyRunning",
    "FlowRefused",
    "FlowRun",
    "QueryGivenUp",
    "QueryProgress",
    "QueryState",
    "RunReport",
    "run",
    "run_all",
]

_PLACES = {
    "errors": ("CheckpointMismatch", "FlowAlreadyRunning", "FlowRefused", "QueryGivenUp"),
    "flow_run": ("FlowRun", "RunReport"),
    "progress": ("QueryProgress", "QueryState"),
    "runner": ("run", "run_all"),
}


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
