"""Databases become streams: what changes in their tables, exactly once, in topics.

    from headrace.capture import Capture

    with Capture("postgresql://shop@localhost/shop", tables=["orders"], to="shop"):
        ...

The path of a change: `source` is what a database has to do, and `postgres`, `mariadb` and `sqlite`
do it; `changes` is what its log says, in neutral words. `session` follows the log and `writing`
makes records with an `envelope`; `delivery` commits them with the position they lead to, which
`state` and `store` keep. `snapshot` reads tables meanwhile, `watching` looks for new ones, and
`running` keeps captures going.
"""

from headrace.capture.capture import Capture
from headrace.capture.errors import (
    CaptureBusy,
    CaptureError,
    CaptureTakenOver,
    DatabaseUnreachable,
    InvalidCapture,
    LogRetained,
    NotPrepared,
    PositionLost,
)
from headrace.capture.progress import CaptureProgress, Condition

__all__ = [
    "Capture",
    "CaptureBusy",
    "CaptureError",
    "CaptureProgress",
    "CaptureTakenOver",
    "Condition",
    "DatabaseUnreachable",
    "InvalidCapture",
    "LogRetained",
    "NotPrepared",
    "PositionLost",
]
