"""When a window speaks, and what becomes of events that come after it has spoken."""

from dataclasses import dataclass
from typing import Final

from headrace.streams.errors import InvalidFlow
from headrace.streams.names import did_you_mean
from headrace.streams.windows.durations import Duration, microseconds, written

LATE: Final = ("drop", "side", "correct")
EMIT: Final = ("final", "updates", "every ...")


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens when, in microseconds of event time and of the batches' clock."""

    late: str = "drop"
    """`drop` counts events that came too late, `side` also delivers them as the output `late`, and
    so does `correct` with those that come more than `lateness` after the end of their window."""

    lateness: int = 0
    """How long after its end a window can still be corrected; nothing but for `correct`."""

    emit: str = "final"
    """`final`, `updates` or `every`."""

    interval: int = 0
    """With `every`, the least time between two updates, by the batches' clock."""

    @property
    def remembers(self) -> bool:
        """Whether a window can speak more than once, so that what it said has to be known."""
        return self.lateness > 0 or self.emit != "final"

    @property
    def carries_rows(self) -> bool:
        """Whether events have to arrive whole, since they may be delivered as late ones."""
        return self.late != "drop"

    def __str__(self) -> str:
        correcting = f" within {written(self.lateness)}" if self.lateness else ""
        speaking = f"every {written(self.interval)}" if self.interval else self.emit
        return f"late {self.late}{correcting}, emit {speaking}"


def policy(late: str = "drop", lateness: Duration | None = None, emit: str = "final") -> Policy:
    """A policy from the words that people write; InvalidFlow says what they may be.

    >>> print(policy(late="correct", lateness="1 hour", emit="every 10 seconds"))
    late correct within 1 hour, emit every 10 s
    """
    if late not in LATE:
        raise InvalidFlow(
            f"late={late!r} is no way to treat late events; {did_you_mean(late, LATE)}"
        )
    if late == "correct" and lateness is None:
        raise InvalidFlow(
            'late="correct" needs to know for how long, since results are kept that long: say '
            'lateness="1 hour".'
        )
    if late != "correct" and lateness is not None:
        raise InvalidFlow(
            f'lateness is how long results are corrected: say late="correct", not {late!r}.'
        )
    allowed = microseconds(lateness, "lateness") if lateness is not None else 0
    if emit in EMIT[:2]:
        return Policy(late, allowed, emit)
    word, _, interval = emit.partition(" ")
    if word != "every":
        raise InvalidFlow(f"emit={emit!r} is no time to speak; {did_you_mean(emit, EMIT)}")
    return Policy(late, allowed, "every", microseconds(interval, f"emit={emit!r}"))
