"""A golden file with all that it says; docs/testing-flows.md shows one."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from headrace.testing.golden.errors import GoldenFileError
from headrace.testing.golden.tables import Row, read_table

VERSION: Final = "headrace golden 1"
"""The first line of every golden file: what it is, and the version of the format."""

_ANY_ORDER: Final = "(any order)"


@dataclass(frozen=True, slots=True)
class Send:
    """Events for a topic."""

    topic: str
    rows: tuple[Row, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Act:
    """Something that happens: step, run, advance, kill or restart."""

    verb: str
    argument: str
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Expect:
    """Rows that are new in an output."""

    output: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    any_order: bool
    line: int
    end: int
    """The line after its last, both counted in the file from 1."""

    @property
    def title(self) -> str:
        """The line above its table."""
        return f"< {self.output}{f' {_ANY_ORDER}' if self.any_order else ''}"


Part: TypeAlias = Send | Act | Expect

_VERBS: Final = ("step", "run", "advance", "kill", "restart")


@dataclass(frozen=True, slots=True, repr=False)
class GoldenCase:
    """One case of a file: what is sent, what happens, and which rows come of it."""

    path: Path
    name: str
    settings: dict[str, str]
    parts: tuple[Part, ...]
    line: int
    lines: tuple[str, ...]
    """As they are in the file, from `line` on."""

    def __str__(self) -> str:
        return f"{self.path.stem}: {self.name}"

    def __repr__(self) -> str:
        return f"<GoldenCase {self}>"


def golden_cases(place: Path | str) -> list[GoldenCase]:
    """The cases of a file, or of all `*.txt` files of a directory: what tests are made of.

    @pytest.mark.parametrize("case", golden_cases("tests/golden"), ids=str)
    """
    place = Path(place)
    files = sorted(place.glob("*.txt")) if place.is_dir() else [place]
    return [case for path in files for case in read_cases(path)]


def read_cases(path: Path) -> list[GoldenCase]:
    """The cases of a file; GoldenFileError says which line is wrong."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0].strip() != VERSION:
        raise GoldenFileError(path, 1, f"the first line must be `{VERSION}`")
    starts = [number for number, line in enumerate(lines) if line.startswith("== ")]
    if not starts:
        raise GoldenFileError(path, 1, "there is no case; one begins with `== its name`")
    cases = [
        _Reader(path, start + 1, lines[start:end]).case()
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]
    names = [case.name for case in cases]
    for case in cases:
        if names.count(case.name) > 1:
            raise GoldenFileError(path, case.line, f"there are two cases named {case.name}")
    return cases


class _Reader:
    """Reads the lines of one case."""

    def __init__(self, path: Path, first: int, lines: list[str]) -> None:
        self._path = path
        self._first = first
        self._lines = lines

    def case(self) -> GoldenCase:
        return GoldenCase(
            path=self._path,
            name=self._lines[0].removeprefix("== ").strip(),
            settings=dict(self._settings()),
            parts=tuple(self._parts()),
            line=self._first,
            lines=tuple(self._lines),
        )

    def _settings(self) -> Iterator[tuple[str, str]]:
        for line in self._lines[1:]:
            key, colon, value = line.partition(":")
            if line.startswith(("> ", "< ", "---")):
                return
            if colon and key.isidentifier():
                yield key, value.strip()

    def _parts(self) -> Iterator[Part]:
        begun = False
        for index, line in enumerate(self._lines):
            number = self._first + index
            if line.startswith("> "):
                _, rows = self._table(index)
                yield Send(line.removeprefix("> ").strip(), tuple(rows), number)
            elif line.startswith("< "):
                yield self._expect(index)
            elif line.startswith("---"):
                yield self._act(line, number)
            elif line.strip() and not line.startswith((" ", "#")) and index and begun:
                self._wrong(index, f"`{line}` is no part of a case; {_PARTS}")
            begun = begun or line.startswith(("> ", "< ", "---"))

    def _expect(self, index: int) -> Expect:
        name = self._lines[index].removeprefix("< ").strip()
        any_order = name.endswith(_ANY_ORDER)
        columns, rows = self._table(index)
        end = index + 1
        while end < len(self._lines) and self._lines[end].startswith(" "):
            end += 1
        return Expect(
            output=name.removesuffix(_ANY_ORDER).strip(),
            columns=tuple(columns),
            rows=tuple(rows),
            any_order=any_order,
            line=self._first + index,
            end=self._first + end,
        )

    def _act(self, line: str, number: int) -> Act:
        verb, _, argument = line.removeprefix("---").strip().partition(" ")
        if verb not in _VERBS:
            self._wrong(number - self._first, f"`{line}`: there are {', '.join(_VERBS)}")
        return Act(verb, argument.strip(), number)

    def _table(self, index: int) -> tuple[list[str], list[Row]]:
        lines = []
        for line in self._lines[index + 1 :]:
            if not line.startswith(" "):
                break
            lines.append(line)
        try:
            return read_table(lines)
        except ValueError as error:
            self._wrong(index, str(error))
            raise AssertionError from error

    def _wrong(self, index: int, message: str) -> None:
        raise GoldenFileError(self._path, self._first + index, message)


_PARTS: Final = (
    "events begin with `> topic`, expected rows with `< output`, their tables are indented, and "
    "what happens begins with `---`"
)
