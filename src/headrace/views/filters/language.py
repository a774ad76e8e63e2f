"""A filter as people write it, and as a tree.

    country = 'DE' and (total >= 100 or vip = true) and not note is null

Nothing of the text reaches a database: it is taken apart here, its literals become parameters, and
its columns are looked up among those that a view has.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NoReturn, TypeAlias

from headrace.views.errors import ViewsError

Literal: TypeAlias = str | int | float | bool
"""What a column can be compared with."""

LONGEST: Final = 10_000
"""Characters of a filter that are read; more is a mistake or an attack."""

_DEEPEST: Final = 50
"""How many brackets and nots may be inside of each other."""

_TOKEN: Final = re.compile(
    r"\s*(?:"
    r"(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![A-Za-z0-9_.])"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>(?:[^\W\d]\w*|\"[^\"]+\")(?:\.(?:[^\W\d]\w*|\"[^\"]+\"))*)"
    r"|(?P<symbol><=|>=|!=|<>|=|<|>|\(|\)|,)"
    r")"
)
_PART: Final = re.compile(r"\"([^\"]+)\"|([^\".]+)")
_WORDS: Final = frozenset(
    "and or not in between is null true false contains starts with".split()  # noqa: SIM905
)


class InvalidFilter(ViewsError):
    """A filter or an order that cannot be read, or names a column that is not there."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field inside of one: its name is the path to it."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against a literal; the operator is =, !=, <, <=, > or >=."""

    column: Column
    operator: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class OneOf:
    """A column that is one of some literals."""

    column: Column
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """A column between two literals, both included."""

    column: Column
    low: Literal
    high: Literal


@dataclass(frozen=True, slots=True)
class TextTest:
    """A column whose text `contains` another one, or `starts` with it."""

    column: Column
    test: str
    text: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column that is null or not there; never unknown."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; the opposite of unknown is unknown."""

    part: "Filter"


@dataclass(frozen=True, slots=True)
class And:
    """All of some filters."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of some filters."""

    parts: "tuple[Filter, ...]"


Filter: TypeAlias = Comparison | OneOf | Between | TextTest | IsNull | Not | And | Or
"""Any part of a filter."""


def parse_filter(text: str, columns: Iterable[str] | None = None) -> Filter:
    """The tree of a filter; InvalidFilter says where it goes wrong and what was expected.

    With `columns`, those that a view has, it may name no other.

    >>> parse_filter("total >= 100")
    Comparison(column=Column(path=('total',)), operator='>=', literal=100)
    """
    if len(text) > LONGEST:
        raise InvalidFilter(f"A filter may have up to {LONGEST:,} characters, not {len(text):,}.")
    parser = _Parser(text)
    found = parser.whole()
    if columns is not None:
        require_columns(columns_of(found), columns)
    return found


def columns_of(part: Filter) -> Iterator[Column]:
    """The columns that a filter names, again and again if it does."""
    match part:
        case And(parts) | Or(parts):
            for each in parts:
                yield from columns_of(each)
        case Not(inner):
            yield from columns_of(inner)
        case _:
            yield part.column


def require_columns(named: Iterable[Column], columns: Iterable[str]) -> None:
    """InvalidFilter for the first column that is not among those there are; none means any."""
    known = list(columns)
    for each in named:
        if known and each.path[0] not in known:
            close = get_close_matches(each.path[0], known, n=1, cutoff=0.5)
            remedy = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."
            raise InvalidFilter(f"The view has no column {each.path[0]}; {remedy}")


def parse_column(text: str) -> Column:
    """A column as it is written: a name, quoted or not, with dots before fields inside of it."""
    match = _TOKEN.fullmatch(text)
    if match is None or not match["name"]:
        raise InvalidFilter(f'"{text}" is no column; write its name, in "quotes" if need be.')
    return _column(match["name"])


def _column(written: str) -> Column:
    return Column(tuple(quoted or plain for quoted, plain in _PART.findall(written)))


class _Parser:
    """Reads by recursive descent: or, and, not, comparison."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._depth = 0

    def whole(self) -> Filter:
        found = self._or()
        if self._text[self._place :].strip():
            self._fail("the end, `and` or `or`")
        return found

    def _or(self) -> Filter:
        parts = [self._and()]
        while self._word("or"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _and(self) -> Filter:
        parts = [self._not()]
        while self._word("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _not(self) -> Filter:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidFilter(f"The filter is more than {_DEEPEST} brackets deep.")
        try:
            if self._word("not"):
                return Not(self._not())
            if self._symbol("("):
                inner = self._or()
                self._require(")")
                return inner
            return self._test()
        finally:
            self._depth -= 1

    def _test(self) -> Filter:
        column = self._named()
        for operator in ("<=", ">=", "!=", "<>", "=", "<", ">"):
            if self._symbol(operator):
                return Comparison(column, "!=" if operator == "<>" else operator, self._literal())
        if self._word("is"):
            negative = self._word("not")
            if not self._word("null"):
                self._fail("`null`")
            return Not(IsNull(column)) if negative else IsNull(column)
        negative = self._word("not")
        found = self._set_test(column)
        return Not(found) if negative else found

    def _set_test(self, column: Column) -> Filter:
        if self._word("in"):
            self._require("(")
            literals = [self._literal()]
            while self._symbol(","):
                literals.append(self._literal())
            self._require(")")
            return OneOf(column, tuple(literals))
        if self._word("between"):
            low = self._literal()
            if not self._word("and"):
                self._fail("`and`")
            return Between(column, low, self._literal())
        if self._word("contains"):
            return TextTest(column, "contains", self._quoted())
        if self._word("starts"):
            if not self._word("with"):
                self._fail("`with`")
            return TextTest(column, "starts", self._quoted())
        raise self._failure(
            "a comparison such as = or <, `in`, `between`, `contains` or `starts with`"
        )

    def _named(self) -> Column:
        match = _TOKEN.match(self._text, self._place)
        if match is None or not match["name"] or match["name"].lower() in _WORDS:
            self._fail("a column")
        self._place = match.end()
        return _column(match["name"])

    def _literal(self) -> Literal:
        match = _TOKEN.match(self._text, self._place)
        if match is not None and match["number"]:
            self._place = match.end()
            return _number(match["number"])
        if match is not None and match["text"]:
            return self._quoted()
        for word, value in (("true", True), ("false", False)):
            if self._word(word):
                return value
        if self._word("null"):
            raise InvalidFilter("Nothing equals null; write `is null` or `is not null`.")
        raise self._failure("a number, a 'text', true or false")

    def _quoted(self) -> str:
        match = _TOKEN.match(self._text, self._place)
        if match is None or not match["text"]:
            self._fail("a 'text'")
        self._place = match.end()
        return str(match["text"][1:-1].replace("''", "'"))

    def _word(self, word: str) -> bool:
        match = _TOKEN.match(self._text, self._place)
        if match is None or not match["name"] or match["name"].lower() != word:
            return False
        self._place = match.end()
        return True

    def _symbol(self, symbol: str) -> bool:
        match = _TOKEN.match(self._text, self._place)
        if match is None or match["symbol"] != symbol:
            return False
        self._place = match.end()
        return True

    def _require(self, symbol: str) -> None:
        if not self._symbol(symbol):
            self._fail(f"`{symbol}`")

    def _fail(self, expected: str) -> NoReturn:
        raise self._failure(expected)

    def _failure(self, expected: str) -> InvalidFilter:
        rest = self._text[self._place :].strip()
        where = f'at "{rest[:30]}"' if rest else "at its end"
        return InvalidFilter(f'The filter "{self._text}" needs {expected} {where}.')


def _number(text: str) -> int | float:
    try:
        number: int | float = int(text)
    except ValueError:
        number = float(text)
    if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
        number = float(number)
    if number in (float("inf"), float("-inf")):
        raise InvalidFilter(f"{text} is too large a number.")
    return number
