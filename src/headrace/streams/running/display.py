"""What a person sees of a running flow: lines, a table that is rewritten, or a bar."""

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self, TextIO

from headrace.settings import readable_duration
from headrace.streams.running.progress import QueryProgress, QueryState

_LINE_SECONDS = 10.0
"""Between two lines about a query, where nobody watches live."""


class Display(Protocol):
    """Shows queries while they run."""

    def show(self, queries: Sequence[QueryProgress]) -> None:
        """Show them as they are now; called several times a second."""
        ...

    def say(self, line: str) -> None:
        """Show something that has happened."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


def display_for(stream: TextIO | None = None, *, once: bool, rebuild: bool = False) -> Display:
    """A live display where the stream is a terminal, lines elsewhere.

    With `once` a bar shows how much of the backlog is left; of a rebuild too, until it is read.
    """
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        return Lines(stream)
    from headrace.streams.running.screen import Bar, CatchingUp, Screen

    if once:
        return Bar(stream)
    return CatchingUp(stream) if rebuild else Screen(stream)


class Lines:
    """A line per query now and then, and one for everything that happens."""

    def __init__(self, stream: TextIO, every_seconds: float = _LINE_SECONDS) -> None:
        import time

        self._stream = stream
        self._every = every_seconds
        self._monotonic = time.monotonic
        self._due = time.monotonic() + every_seconds
        self._shown: dict[str, QueryProgress] = {}

    def show(self, queries: Sequence[QueryProgress]) -> None:
        """Write the lines if it is time to, and at once for a query that has ended."""
        due = self._monotonic() >= self._due
        for each in queries:
            name = f"{each.flow}.{each.output}"
            ended = each.state in (QueryState.FINISHED, QueryState.STOPPED)
            if (due and each != self._shown.get(name)) or (ended and self._shown.get(name) != each):
                self._shown[name] = each
                self.say(line_of(each))
        if due:
            self._due = self._monotonic() + self._every

    def say(self, line: str) -> None:
        """Write it."""
        print(line, file=self._stream, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass


def line_of(query: QueryProgress) -> str:
    """All about a query in one line.

    >>> line_of(QueryProgress("shop", "large", QueryState.RUNNING, 7, 1200, 80, 950.4, 120, 3))
    'shop.large: running, 1,200 rows read, 80 written, 950/s, batch 7 in 120 ms, lag 3'
    """
    read = f"{query.read:,} {'row' if query.read == 1 else 'rows'} read"
    parts = [str(query.state), read, f"{query.written:,} written"]
    if query.state is QueryState.RUNNING and query.rate:
        parts.append(f"{query.rate:,.0f}/s")
    if query.batch is not None and query.batch_ms is not None:
        parts.append(f"batch {query.batch} in {readable_duration(query.batch_ms)}")
    if query.lag is not None:
        parts.append(f"lag {query.lag:,}")
    if query.time is not None:
        parts.append(str(query.time))
    parts += skipped_of(query)
    if query.restarts:
        parts.append(f"{query.restarts} {'restart' if query.restarts == 1 else 'restarts'}")
    return f"{query.flow}.{query.output}: {', '.join(parts)}"


def skipped_of(query: QueryProgress) -> list[str]:
    """What a query has left out, each kind in a word."""
    counts = {
        "rejected": query.rejected,
        "refused": query.refused,
        "lost": query.lost,
        "late": query.late,
        "implausible": query.implausible,
    }
    return [f"{count:,} {kind}" for kind, count in counts.items() if count]
