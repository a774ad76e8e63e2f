"""Running flows: `preparing` makes queries of a description and refuses what does not fit.

Then read `flow_run` (the queries side by side), `query` (one of them: started, watched, started
again), `checkpoints` (what is stored, and whose it is) and `runner` (signals, metrics, display).
"""

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
