"""Rows in a golden file: a line of names, then a line for each row, in columns that are aligned.

customer | price | @partition
ada      | 250.0 | 1
bob      |       | 0
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from headrace.testing.golden.cells import ABSENT, read_cell, write_cell

Row: TypeAlias = dict[str, Any]
"""Fields by their names; those that begin with @ are of the record and not of its value."""

INDENT = "  "


def read_table(lines: Sequence[str]) -> tuple[list[str], list[Row]]:
    """The columns and rows of a table; ValueError if a line has too many cells."""
    if not lines:
        return [], []
    columns = [name.strip() for name in lines[0].split("|")]
    if not all(columns) or len(set(columns)) < len(columns):
        raise ValueError("columns need names, each another one")
    rows = []
    for line in lines[1:]:
        cells = [read_cell(cell) for cell in line.split("|")]
        if len(cells) > len(columns):
            raise ValueError(
                f"{line.strip()!r} has {len(cells)} cells for {len(columns)} columns; a bar inside "
                'of a text is written as "\\u007c", in quotation marks'
            )
        pairs = zip(columns, cells, strict=False)
        rows.append({name: value for name, value in pairs if value is not ABSENT})
    return columns, rows


def write_table(columns: Sequence[str], rows: Iterable[Row]) -> list[str]:
    """The lines of a table; none if it has no rows."""
    cells = [[write_cell(row.get(name, ABSENT)) for name in columns] for row in rows]
    if not cells:
        return []
    table = [list(columns), *cells]
    widths = [max(len(line[number]) for line in table) for number in range(len(columns))]
    return [
        INDENT
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]


def columns_of(rows: Sequence[Row], preferred: Sequence[str] = ()) -> list[str]:
    """The columns that rows have, the preferred ones first, in their order."""
    present = dict.fromkeys(name for row in rows for name in row)
    first = [name for name in preferred if name in present]
    return [*first, *(name for name in present if name not in first)]
