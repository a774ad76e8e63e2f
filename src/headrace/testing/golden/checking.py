"""Golden files compared with what a flow does, or rewritten to say it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.testing.golden.cases import Expect, GoldenCase, read_cases
from headrace.testing.golden.playing import Played, play
from headrace.testing.golden.tables import Row, columns_of, write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.streams.flow import Flow


class GoldenMismatch(AssertionError):
    """A flow does something else than a golden file says; the message is the difference."""


def check_golden(
    golden: Path | str | GoldenCase,
    make_flow: "Callable[..., Flow]",
    *,
    spark: "SparkSession | None" = None,
    update: bool = False,
) -> None:
    """Play a case, or all cases of a file, and compare.

    `make_flow` makes a new flow for each case, with the case's settings as keyword arguments. With
    `update`, what the file expects becomes what was seen, and the rest of it stays as it is.

    Raises:
        GoldenMismatch: Rows are missing, others are there, or they are in another order.
        GoldenFileError: The file does not say what is to be done.
    """
    # What pytest shows is the difference, and not this function.
    __tracebackhide__ = True
    cases = [golden] if isinstance(golden, GoldenCase) else read_cases(Path(golden))
    for case in cases:
        compare(case, play(case, make_flow, spark), update=update)


def compare(case: GoldenCase, played: Played, *, update: bool = False) -> None:
    """Compare what came of a case with what it expects, however it was played.

    Raises GoldenMismatch if they differ; with `update`, the file says what was seen from then on.
    """
    __tracebackhide__ = True
    if _matches(played):
        return
    if not update:
        raise GoldenMismatch(_difference(case, played))
    _rewrite(case, _with_seen(case, played))


def _matches(played: Played) -> bool:
    return not played.unexpected and all(
        _sorted(expect, seen) == _sorted(expect, expect.rows)
        for expect, seen in played.seen.items()
    )


def _sorted(expect: Expect, rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: str(sorted(row.items()))) if expect.any_order else [*rows]


def _difference(case: GoldenCase, played: Played) -> str:
    """What would change in the file, line by line."""
    as_it_is = _with(case, {expect: expect.rows for expect in played.seen})
    as_seen = _with_seen(case, played)
    lines = unified_diff(as_it_is, as_seen, "expected", "seen", n=6, lineterm="")
    shown = "\n".join(lines)
    return (
        f"{case.path}:{case.line}: {case.name}\n{shown}\n\n"
        "If what was seen is right: pytest --update-golden"
    )


def _with_seen(case: GoldenCase, played: Played) -> list[str]:
    lines = _with(case, played.seen)
    while lines and not lines[-1].strip():
        lines.pop()
    for name, rows in played.unexpected.items():
        lines += ["", f"< {name}", *write_table(columns_of(rows), rows)]
    return [*lines, *([""] if case.lines and not case.lines[-1].strip() else [])]


def _with(case: GoldenCase, rows: Mapping[Expect, Sequence[Row]]) -> list[str]:
    """The lines of a case in which those rows are expected."""
    lines = list(case.lines)
    for expect, expected in sorted(rows.items(), key=lambda item: item[0].line, reverse=True):
        ordered = _sorted(expect, expected)
        table = write_table(columns_of(ordered, expect.columns), ordered)
        lines[expect.line - case.line : expect.end - case.line] = [expect.title, *table]
    return lines


def _rewrite(case: GoldenCase, lines: Sequence[str]) -> None:
    """Put other lines in the place of a case, wherever it is in the file by now."""
    now = next(each for each in read_cases(case.path) if each.name == case.name)
    file = case.path.read_text(encoding="utf-8").splitlines()
    file[now.line - 1 : now.line - 1 + len(now.lines)] = lines
    case.path.write_text("\n".join(file) + "\n", encoding="utf-8")
