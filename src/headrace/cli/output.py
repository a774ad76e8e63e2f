"""How commands speak: results on stdout, everything about them on stderr.

Tables are plain aligned columns, so that they read well in a terminal and in `awk`; colour is for
terminals only, and not where NO_COLOR is set.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TextIO

from headrace.settings import readable_duration

Cell = str | int | None
"""What a table shows; None is a dash, and numbers stand to the right."""


class Style(StrEnum):
    """What colour is used for, as the terminal's codes."""

    FAINT = "\x1b[2m"
    KEY = "\x1b[36m"
    NAME = "\x1b[34m"
    TEXT = "\x1b[32m"
    NUMBER = "\x1b[33m"
    WORD = "\x1b[35m"
    ERROR = "\x1b[31m"


_PLAIN = "\x1b[0m"


def paint(text: str, style: Style, *, coloured: bool = True) -> str:
    """The text in a style, or as it is."""
    return f"{style}{text}{_PLAIN}" if coloured and text else text


def wants_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose owner has not asked for none (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def complain(message: str) -> None:
    """Say on stderr what went wrong."""
    prefix = paint("headrace:", Style.ERROR, coloured=wants_colour(sys.stderr))
    print(f"{prefix} {message}", file=sys.stderr)


def remark(message: str) -> None:
    """Say on stderr what is worth knowing but is not the result."""
    print(message, file=sys.stderr)


def print_json(value: object) -> None:
    """Print a result for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print aligned columns under headings."""
    numeric = [
        any(isinstance(row[column], int) for row in rows)
        and all(row[column] is None or isinstance(row[column], int) for row in rows)
        for column in range(len(headings))
    ]
    cells = [[_written(cell) for cell in row] for row in rows]
    widths = [
        max(len(line[column]) for line in ([*headings], *cells)) for column in range(len(headings))
    ]
    heading = _aligned(headings, widths, numeric)
    print(paint(heading, Style.FAINT, coloured=wants_colour(sys.stdout)))
    for line in cells:
        print(_aligned(line, widths, numeric))


def print_facts(facts: Mapping[str, Cell]) -> None:
    """Print names and values, one fact per line."""
    width = max(len(name) for name in facts)
    coloured = wants_colour(sys.stdout)
    for name, value in facts.items():
        print(f"{paint(name.ljust(width), Style.FAINT, coloured=coloured)}  {_written(value)}")


def duration(milliseconds: float | None) -> str | None:
    """A duration as people read it; None, for one that is not known, stays None."""
    return None if milliseconds is None else readable_duration(milliseconds)


class Progress:
    """A line on stderr that is rewritten while records flow, where stderr is a terminal."""

    _SECONDS_BETWEEN = 0.2

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown and sys.stderr.isatty()
        self._began = time.monotonic()
        self._next = self._began + self._SECONDS_BETWEEN

    def update(self, records: int) -> None:
        """Show how many records there have been, if it is time to."""
        now = time.monotonic()
        if self._shown and now >= self._next:
            self._next = now + self._SECONDS_BETWEEN
            rate = records / (now - self._began)
            print(
                f"\r\x1b[K{records:,} records, {rate:,.0f}/s", end="", file=sys.stderr, flush=True
            )

    def clear(self) -> None:
        """Make room for other lines."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _written(cell: Cell) -> str:
    return "-" if cell is None or cell == "" else str(cell)


def _aligned(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    return "  ".join(
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ).rstrip()
