"""What went wrong, in one paragraph: Spark tells it in a hundred lines of Java."""

import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import headrace
from headrace.errors import HeadraceError

_PASSING: Final = frozenset(
    {
        "ClusterSilent",
        "ClusterUnready",
        "ClusterUnreachable",
        "RegistryUnreachable",
        "StoreUnreachable",
    }
)
"""Failures that nobody's batch is to blame for; they are waited out."""

_BUSY: Final = "Python worker failed to connect back"
"""What Spark says if a worker takes more than ten seconds to start, on a machine that is busy."""

_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'  File "([^"]+)", line (\d+), in (\S+)')
_RAISED: Final = re.compile(r"((?:\w+\.)*)(\w+)(?:: (.*))?", re.DOTALL)
_SPARK_DETAIL: Final = re.compile(r"\n=== Streaming Query ===.*|\n\nJVM stacktrace:.*", re.DOTALL)
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")
_SPARK: Final = ("pyspark.", "py4j.")
_LIBRARIES: Final = re.compile(r"(site|dist)-packages|python\d\.\d+\w*")
"""Directories of Python's own modules and of those that were installed."""

_LONGEST: Final = 1500


@dataclass(frozen=True, slots=True)
class Cause:
    """The root of a failure."""

    kind: str
    """The class of what was raised."""

    message: str
    """What it says, and where in the user's code it happened if it did."""

    detail: str
    """Everything that Spark said, for those who want it."""

    frames: tuple[str, ...] = ()
    """The lines of a traceback that are about the user's own code, outermost first."""

    @property
    def passing(self) -> bool:
        """Whether it may be over at the next try, whatever is tried."""
        return self.kind in _PASSING or _BUSY in self.message


@dataclass(frozen=True, slots=True)
class Failures:
    """How often a batch has failed, and how often of that it may have been its own fault."""

    batch: int | None = None
    in_a_row: int = 0
    """All failures since it was begun, which is what pauses grow with."""

    tries: int = 0
    """Those that count: an outage, however long, uses up none of a batch's tries."""

    def after(self, batch: int | None, *, passing: bool) -> "Failures":
        """The count after one more failure of a batch."""
        before = self if batch == self.batch else Failures()
        return Failures(batch, before.in_a_row + 1, before.tries + (not passing))


def root_cause(error: BaseException) -> Cause:
    """The exception that began it: ours, the user's function's, or the innermost of Java's."""
    text = _said(error)
    if isinstance(error, HeadraceError):
        return Cause(type(error).__name__, text, text)
    if _TRACEBACK in text:
        return _python_cause(text)
    if not type(error).__module__.startswith(_SPARK):
        return _driver_cause(error)
    said = _SQL_STATE.sub("", _SPARK_DETAIL.sub("", text)).strip()
    innermost = said.rpartition("terminated with exception: ")[2]
    message = " ".join(innermost.split())
    return Cause(type(error).__name__, message[:_LONGEST] or type(error).__name__, text)


def _said(error: BaseException) -> str:
    """What an error says; those of Java are asked for it in Java, which may be gone by now."""
    try:
        return str(error)
    except Exception:
        return f"{type(error).__name__}, and Spark's Java is gone"


def _driver_cause(error: BaseException) -> Cause:
    """What was raised in this process, as by a sink of the user's."""
    detail = "".join(traceback.format_exception(error))
    frames, where = _users_frames("".join(traceback.format_tb(error.__traceback__)).splitlines())
    kind = type(error).__name__
    return Cause(kind, _named(kind, _said(error), where), detail, frames)


def _python_cause(text: str) -> Cause:
    """The last exception of the last traceback in a text."""
    lines = text.rpartition(_TRACEBACK)[2].splitlines()
    raised: list[str] = []
    for line in lines[1:]:
        if raised and (not line.strip() or line.startswith(("\tat ", "SQLSTATE"))):
            break
        if raised or (line.strip() and not line.startswith(" ")):
            raised.append(line.strip())
    match = _RAISED.fullmatch(_SQL_STATE.sub("", " ".join(raised)))
    if match is None:
        return Cause("Exception", " ".join(raised)[:_LONGEST], text)
    module, kind, said = match[1], match[2], match[3] or ""
    if module.startswith("headrace."):
        return Cause(kind, said[:_LONGEST], text)
    frames, where = _users_frames(lines)
    return Cause(kind, _named(kind, said, where), text, frames)


def _named(kind: str, said: str, where: str) -> str:
    message = " ".join(said.split())[:_LONGEST]
    return f"{kind}: {message}{where}" if message else f"{kind}{where}"


def _users_frames(lines: list[str]) -> tuple[tuple[str, ...], str]:
    """The frames of the user's own code in a traceback, and the innermost of them in words."""
    kept: list[str] = []
    where = ""
    own = False
    for line in lines:
        if (frame := _FRAME.match(line)) is not None:
            own = _is_users(frame[1])
            where = f" (in {frame[3]}, {frame[1]} line {frame[2]})" if own else where
        elif not line.startswith("    "):
            own = False
        if own:
            kept.append(line)
    return tuple(kept), where


def _is_users(file: str) -> bool:
    """Whether a file is neither of a library, nor of Python, nor of this package."""
    path = Path(file)
    if file.startswith("<") or path.is_relative_to(Path(headrace.__file__).parent):
        return False
    return not any(part == "pyspark.zip" or _LIBRARIES.fullmatch(part) for part in path.parts)
