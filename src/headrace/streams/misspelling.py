"""Columns that are misspelled inside of Spark SQL, found without Spark.

Only Spark knows what a word in SQL is: a column, a function, a unit of time, the variable of a
lambda. So this is a suspicion and no parser. A word is taken for a misspelled column only if it
stands where a column can stand, SQL has no such word, and there is a column of nearly that name;
everything else is left to Spark, which is asked before anything is read.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*.*?\*/ )
    | (?P<text> [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `[^`]*`
      | ['"`].* )
    | (?P<number> \d[\w.]* | \.\d\w* )
    | (?P<word> \w+ )
    | (?P<sign> -> | => | :: | \S )
    """,
    re.VERBOSE | re.DOTALL,
)

_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        all and any array as asc at between binary boolean both by byte case cast char collate cross
        cube current_catalog current_database current_date current_schema current_time
        current_timestamp current_user date day dayofyear days dec decimal desc distinct div double
        else end escape except exists false filter first float following for from grouping group
        having hour hours ilike in int integer interval is isnull last lateral leading like
        localtimestamp long map microsecond microseconds millisecond milliseconds minute minutes
        month months nanosecond nanoseconds not notnull null nulls numeric of on or order over
        overlay partition placing position preceding quarter quarters range real regexp rlike rollup
        row rows second seconds session_user short similar smallint some string struct substring
        then time timestamp timestamp_ltz timestamp_ntz tinyint to trailing trim true try_cast
        unbounded unknown user using values varchar variant void week weeks when where window with
        within year years zone
        """,
    )
)
"""What SQL itself says in expressions; Spark's functions are followed by a parenthesis."""

_ALIAS: Final = re.compile(r"\bas\s+(\w+)", re.IGNORECASE)

_NAMING: Final = frozenset({"as", "collate"})
"""Words behind which a name is no column's."""

_BEYOND: Final = re.compile(r"\$|\b(?:select|struct\s*<)", re.IGNORECASE)
"""What makes a text more than an expression of columns."""

_ALIKE: Final = 0.75
"""How much of a word has to be a column's name, from 0 to 1."""


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def is_operand(self) -> bool:
        """Whether a name right behind this can only be an alias or a unit."""
        if self.kind == "word":
            return self.text.lower() not in _WORDS
        return self.kind in ("number", "text") or self.text in (")", "]")


def aliases(expressions: Iterable[object]) -> Iterator[str]:
    """Names that expressions give, which those beside them may use.

    >>> list(aliases(["price * 2 as doubled", "doubled + 1"]))
    ['doubled']
    """
    for each in expressions:
        if isinstance(each, str):
            yield from _ALIAS.findall(each)


def misspelled(expression: str, columns: Iterable[str], others: Iterable[str] = ()) -> str | None:
    """The first word that is nearly the name of a column, and should be; None if there is none.

    `others` are names that are no columns and can stand for one.

    >>> misspelled("prize >= 100 and customer is not null", ["customer", "price"])
    'prize'
    >>> misspelled("transform(prices, prize -> prize * 2)", ["price", "prices"]) is None
    True
    """
    if _BEYOND.search(expression):
        return None
    tokens = [
        _Token(str(match.lastgroup), match[0])
        for match in _TOKEN.finditer(expression)
        if match.lastgroup != "comment"
    ]
    known = {each.lower() for each in columns}
    ours = _WORDS | known | {each.lower() for each in others} | set(_lambda_variables(tokens))
    for place, each in enumerate(tokens):
        word = each.text.lower()
        if each.kind != "word" or word in ours or not _may_be_column(tokens, place):
            continue
        if get_close_matches(word, known, n=1, cutoff=_ALIKE):
            return each.text
    return None


def _may_be_column(tokens: Sequence[_Token], place: int) -> bool:
    before = tokens[place - 1] if place else _Token("sign", "(")
    after = tokens[place + 1] if place + 1 < len(tokens) else _Token("sign", ")")
    if before.is_operand or before.text.lower() in _NAMING or before.text in (".", ":", "::", "@"):
        return False
    return after.kind != "text" and after.text.lower() not in ("(", "=>", "->", "from")


def _lambda_variables(tokens: Sequence[_Token]) -> Iterator[str]:
    """The names in front of arrows: one, or several in parentheses."""
    for place, each in enumerate(tokens):
        if each.text != "->":
            continue
        for earlier in reversed(tokens[:place]):
            if earlier.kind == "word":
                yield earlier.text.lower()
            if earlier.text == "(" or (earlier.kind == "word" and tokens[place - 1] is earlier):
                break
