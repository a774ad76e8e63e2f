"""What went wrong, in one paragraph: Spark tells it in a hundred lines of Java."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.errors import HeadraceError

_PASSING: Final = frozenset(
    {"ClusterSilent", "ClusterUnready", "ClusterUnreachable", "RegistryUnreachable"}
)
"""Failures that nobody's batch is to blame for; they are waited out."""

_BUSY: Final = "Python worker failed to connect back"
"""What Spark says if a worker takes more than ten seconds to start, on a machine that is busy."""

_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_RAISED: Final = re.compile(r"((?:\w+\.)*)(\w+)(?:: (.*))?", re.DOTALL)
_SPARK_DETAIL: Final = re.compile(r"\n=== Streaming Query ===.*|\n\nJVM stacktrace:.*", re.DOTALL)
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")
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


def _python_cause(text: str) -> Cause:
    """The last exception of the last traceback in a text."""
    traceback = text.rpartition(_TRACEBACK)[2]
    lines = traceback.splitlines()
    frames = [_FRAME.search(line) for line in lines]
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
    places = [each for each in frames if each is not None and _is_users(each[1])]
    where = f" (in {places[-1][3]}, {places[-1][1]} line {places[-1][2]})" if places else ""
    return Cause(kind, f"{kind}: {said[:_LONGEST]}{where}" if said else f"{kind}{where}", text)


def _is_users(file: str) -> bool:
    parts = Path(file).parts
    return not any(part in ("site-packages", "headrace", "pyspark.zip") for part in parts)
