"""What runs until Ctrl-C or SIGTERM, and shows meanwhile how far it is."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from headrace.cli.output import remark

_SHOW_SECONDS = 0.25
_LINE_SECONDS = 10.0


class Runs(Protocol):
    """Something with several threads that can be asked to end."""

    def start(self) -> object:
        """Begin."""
        ...

    def ask_to_stop(self) -> None:
        """Let it end."""
        ...

    def ended(self, seconds: float) -> bool:
        """Whether it has, after so many seconds at most."""
        ...

    def stop(self) -> None:
        """End it, and raise what it failed with."""
        ...


def run_until_signal(
    runs: Runs,
    *,
    lines: Callable[[], list[str]],
    begun: Callable[[], list[str]],
    metrics: str | None,
    exposition: Callable[[], str],
) -> None:
    """Run it until it ends by itself or by a signal.

    `lines` is how it is now, `begun` what is said once when something has begun, and `exposition`
    what is served at the address `metrics`, if there is one.
    """
    from headrace.prometheus import served

    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with ExitStack() as resources:
        runs.start()
        resources.callback(runs.stop)
        if metrics is not None:
            address = resources.enter_context(served(metrics, exposition))
            remark(f"metrics at http://{address}/metrics")
        display = _Display()
        while not runs.ended(_SHOW_SECONDS):
            display.greet(begun())
            display.show(lines())
            if stopping.is_set():
                runs.ask_to_stop()
        display.end()


class _Display:
    """A line that is rewritten in a terminal, and a line now and then elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._due = time.monotonic() + _LINE_SECONDS
        self._last: list[str] = []
        self._said: set[str] = set()

    def greet(self, sentences: list[str]) -> None:
        """Say what was not said before."""
        for each in sentences:
            if each not in self._said:
                self._said.add(each)
                remark(each)

    def show(self, lines: list[str]) -> None:
        """Show how it is now."""
        if self._live:
            print("\r\x1b[K" + " | ".join(lines), end="", file=sys.stderr, flush=True)
        elif lines != self._last and time.monotonic() >= self._due:
            self._due = time.monotonic() + _LINE_SECONDS
            self._last = lines
            for line in lines:
                remark(line)

    def end(self) -> None:
        """Make room for other lines."""
        if self._live:
            print(file=sys.stderr)
