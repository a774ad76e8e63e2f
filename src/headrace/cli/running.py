"""What runs until Ctrl-C or SIGTERM, and shows meanwhile how far it is.

Captures and sinks are told what to do in the same way: by the tables of headrace.toml, or by one on
the command line.
"""

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from headrace.cli.output import remark

if TYPE_CHECKING:
    from headrace.settings.sections import Section

_LOG_FORMAT = "%(levelname)s %(name)s: %(message)s"

MetricsOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Serve Prometheus metrics here.")
]
"""Where others can watch it."""

VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say more about what happens.")
]
"""For those who look for a mistake."""

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


T = TypeVar("T", bound="Section")


def log_to_stderr(*, verbose: bool, otherwise: str) -> None:
    """Let libraries say what they have to say: much, or from a level on."""
    logging.basicConfig(level="INFO" if verbose else otherwise, format=_LOG_FORMAT)


def tables_of(
    kind: type[T],
    written: tuple[T, ...],
    named: dict[str, Any] | None,
    options: dict[str, Any],
    *,
    table: str,
    what: str,
    argument: str,
) -> tuple[T, ...]:
    """What is to be run: the tables that settings have, or one of the command line.

    Args:
        kind: What a table is parsed to.
        written: The tables of headrace.toml.
        named: What the argument of the command says about one; None if it was not given.
        options: What its options say.
        table: What a table is called there.
        what: What the argument names, with its article.
        argument: What the argument is called.
    """
    from headrace.settings.tables import Tables

    if named is None:
        if options:
            raise typer.BadParameter(f"needs {what}.", param_hint=f"--{next(iter(options))}")
        if not written:
            raise typer.BadParameter(
                f"name {what}, or write [[{table}]] into headrace.toml.", param_hint=argument
            )
        return written
    try:
        return Tables(kind).parse([{**named, **options}])
    except ValueError as error:
        said = str(error).removeprefix("number 1").removeprefix(":").strip()
        raise typer.BadParameter(f"{said}.", param_hint=f"the {table}") from None


def words_of(given: list[str] | None) -> list[str]:
    """The words of an option that may be repeated, or have several with commas between."""
    return [word for each in given or [] for word in each.split(",") if word.strip()]


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
