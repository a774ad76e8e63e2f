"""The command line that all benchmarks share."""

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from headrace.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Options:
    """What a benchmark was asked to do."""

    quick: bool = False
    rounds: int | None = None
    """How many rounds to measure, or None for the benchmark's own number."""
    only: tuple[str, ...] = ()
    """Patterns of the metrics to report; all if there are none."""

    @classmethod
    def parse(cls, description: str, arguments: Sequence[str] | None = None) -> Self:
        """Read the command line."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--quick", action="store_true", help="small loads, for a first look")
        parser.add_argument("--rounds", type=_positive, help="measure this many rounds")
        parser.add_argument(
            "--only",
            action="append",
            default=[],
            metavar="METRIC",
            help="report only this metric; may be a pattern such as 'produce_*', and repeated",
        )
        given = parser.parse_args(arguments)
        return cls(quick=given.quick, rounds=given.rounds, only=tuple(given.only))


@contextlib.contextmanager
def command() -> Iterator[None]:
    """Run a benchmark as a command: errors are one line, and being ended still cleans up."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    except HeadraceError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    finally:
        signal.signal(signal.SIGTERM, before)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number
