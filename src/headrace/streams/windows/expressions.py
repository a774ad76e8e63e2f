"""Aggregates as people write them, taken apart into what is computed where.

    share="sum(price * quantity) / count(*)"

`price * quantity` is an expression over the events, computed before they are summed up. `sum` and
`count` are aggregates, computed by the window. What remains is an expression over their results,
computed behind it. Only calls of our aggregates are looked for; all else is left to Spark, which
says what is wrong with it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import groupby
from typing import Final, NoReturn

from headrace.streams.windows.aggregates.errors import InvalidAggregate
from headrace.streams.windows.aggregates.functions import FUNCTIONS, called
from headrace.streams.windows.aggregates.protocol import Aggregate, Applied
from headrace.streams.windows.layout import ARGUMENT
from headrace.streams.windows.measures import Call

_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<text>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?[A-Za-z]*|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Parts:
    """Some aggregates, taken apart; columns that are asked for twice are computed once."""

    arguments: dict[str, str] = field(default_factory=dict)
    """SQL over the events, by the name of the column that the aggregates find it in."""

    calls: dict[str, Call] = field(default_factory=dict)
    """The aggregates, by the name of the column of their result. That says what is computed, since
    state is kept under it: what an edit does not touch has to be found again."""

    results: dict[str, str] = field(default_factory=dict)
    """SQL over those results, by the name that people gave."""

    def argument(self, expression: str) -> str:
        """The column of an expression."""
        for name, each in self.arguments.items():
            if each == expression:
                return name
        name = f"{ARGUMENT}{len(self.arguments)}"
        self.arguments[name] = expression
        return name

    def result(self, aggregate: Aggregate, expressions: Sequence[str]) -> str:
        """The column of an aggregate's result, in quotes."""
        call = Call(aggregate, tuple(map(self.argument, expressions)))
        for name, each in self.calls.items():
            if each == call:
                return _quoted(name)
        name = f"{repr(aggregate).removesuffix('()')}({', '.join(map(_spaced, expressions))})"
        # Spark does not tell columns apart whose names differ in case only.
        while name.lower() in map(str.lower, self.calls):
            name += "'"
        self.calls[name] = call
        return _quoted(name)


def taken_apart(aggregates: Mapping[str, str | Applied]) -> Parts:
    """The parts of aggregates by their names; InvalidAggregate if one makes no sense.

    >>> parts = taken_apart({"share": "sum(price * 2) / count(*)"})
    >>> parts.arguments, parts.results
    ({'_argument_0': 'price * 2'}, {'share': '`Sum(price * 2)` / `Count()`'})
    """
    parts = Parts()
    for name, written in aggregates.items():
        if isinstance(written, Applied):
            parts.results[name] = parts.result(written.aggregate, written.expressions)
        else:
            parts.results[name] = _Expression(name, written).rewritten(parts)
    return parts


class _Expression:
    """One expression, as tokens with their kinds."""

    def __init__(self, name: str, written: str) -> None:
        self._name = name
        self._written = written
        self._tokens = [(str(match.lastgroup), match.group()) for match in _TOKEN.finditer(written)]

    def rewritten(self, parts: Parts) -> str:
        """The expression with every call of an aggregate in the place of which is its result."""
        said: list[str] = []
        at, found, functions = 0, False, []
        while at < len(self._tokens):
            kind, text = self._tokens[at]
            opening = self._next(at + 1)
            if kind == "word" and self._text(opening) == "(":
                if text.lower() in FUNCTIONS:
                    at, column = self._call(text, opening, parts)
                    said.append(column)
                    found = True
                    continue
                functions.append(text)
            said.append(text)
            at += 1
        for each in functions:
            close = get_close_matches(each.lower(), FUNCTIONS, n=1, cutoff=0.75)
            if close and not found:
                self._refuse(f"there is no aggregate {each}; did you mean {close[0]}?")
        if not found:
            self._refuse(f"it has no aggregate; there are {', '.join(FUNCTIONS)}")
        return "".join(said).strip()

    def _call(self, name: str, opening: int, parts: Parts) -> tuple[int, str]:
        """The column of a call's result, and where the expression goes on behind the call."""
        closing = self._closing(opening)
        arguments = [each for each in self._arguments(opening + 1, closing) if each]
        distinct = bool(arguments) and re.match(r"distinct\b", arguments[0], re.IGNORECASE)
        if distinct:
            if name.lower() != "count" or len(arguments) > 1:
                self._refuse("distinct is for count(distinct x) only; there is collect_set(x), too")
            name, arguments = "count_distinct", [arguments[0][len("distinct") :].strip()]
        if arguments == ["*"]:
            arguments = [] if name.lower() == "count" else arguments
        at, condition = self._filter(closing + 1)
        try:
            aggregate, expressions = called(name, arguments)
        except InvalidAggregate as error:
            raise InvalidAggregate(f"{self._name}={self._written!r}: {error}") from error
        if condition is not None:
            chosen = expressions or ("1",)
            expressions = tuple(f"CASE WHEN {condition} THEN {each} END" for each in chosen)
        return at, parts.result(aggregate, expressions)

    def _arguments(self, begin: int, end: int) -> Iterator[str]:
        """The texts between the commas of a call, which has no aggregates in it."""
        depth, said = 0, ""
        for at in range(begin, end):
            kind, text = self._tokens[at]
            if (
                kind == "word"
                and text.lower() in FUNCTIONS
                and self._text(self._next(at + 1)) == "("
            ):
                self._refuse(f"{text} is an aggregate in an aggregate; window the result again")
            depth += (text in "([") - (text in ")]") if kind == "other" else 0
            if kind == "other" and text == "," and not depth:
                yield said.strip()
                said = ""
            else:
                said += text
        yield said.strip()

    def _filter(self, at: int) -> tuple[int, str | None]:
        """The condition of a filter behind a call, if there is one, and where that ends."""
        word = self._next(at)
        opening = self._next(word + 1)
        if self._text(word).lower() == "over":
            self._refuse("the window is not said by over (...), but by window()")
        if self._text(word).lower() != "filter" or self._text(opening) != "(":
            return at, None
        closing = self._closing(opening)
        inside = "".join(text for _, text in self._tokens[opening + 1 : closing]).strip()
        if not re.match(r"where\b", inside, re.IGNORECASE):
            self._refuse("a filter is written as filter (where ...)")
        return closing + 1, inside[len("where") :].strip()

    def _closing(self, opening: int) -> int:
        depth = 0
        for at in range(opening, len(self._tokens)):
            kind, text = self._tokens[at]
            depth += (text == "(") - (text == ")") if kind == "other" else 0
            if not depth:
                return at
        return self._refuse("a parenthesis is not closed")

    def _next(self, at: int) -> int:
        """The position of the first token from here on that is not space."""
        while at < len(self._tokens) and self._tokens[at][0] == "space":
            at += 1
        return at

    def _text(self, at: int) -> str:
        return self._tokens[at][1] if at < len(self._tokens) else ""

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidAggregate(f"{self._name}={self._written!r}: {why}.")


def _spaced(expression: str) -> str:
    """An expression with single spaces and no comments, which do not make it another one."""
    tokens = ((each.lastgroup == "space", each.group()) for each in _TOKEN.finditer(expression))
    parts = (
        " " if is_space else "".join(text for _, text in several)
        for is_space, several in groupby(tokens, key=lambda each: each[0])
    )
    return "".join(parts).strip()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
