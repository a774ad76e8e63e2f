"""Conditions on rows, decided here: the log has whole rows, and no server reads it for us.

A condition is SQL of a kind that means one thing only: columns compared with literals by =, <>, <,
<=, >, >=, IN, BETWEEN and IS NULL, joined by AND, OR and NOT, with SQL's three answers (true, false
and nobody knows). Texts are compared letter by letter, whatever the collation of their column. All
else is refused when the capture is described, and rows of snapshots are judged by the same code.
"""

import operator
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final, NoReturn

from headrace.capture.changes import Row, Table, TypeKind
from headrace.capture.errors import InvalidCapture
from headrace.capture.mariadb.catalog import parser_of

Judge = Callable[[Row], bool | None]
"""Whether a row fulfils a condition; None if nobody knows."""

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^'\\]|'')*')
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><>|!=|<=|>=|[=<>(),])
    )""",
    re.VERBOSE,
)
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXTS: Final = (TypeKind.TEXT, TypeKind.ENUM, TypeKind.UUID)
_NUMBERS: Final = (
    *(TypeKind.INT16, TypeKind.INT32, TypeKind.INT64, TypeKind.UINT64, TypeKind.YEAR),
    *(TypeKind.DECIMAL, TypeKind.FLOAT32, TypeKind.FLOAT64),
)
_DATES: Final = (TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_ZONED)


class Condition:
    """A condition as people wrote it.

    >>> from headrace.capture.changes import Column, ColumnType, TableName
    >>> number, text = ColumnType(TypeKind.INT32, "int"), ColumnType(TypeKind.TEXT, "text")
    >>> table = Table(TableName("shop", "t"), (Column("n", number), Column("region", text)))
    >>> judge = Condition("region IN ('eu', 'us') AND NOT n < 5").judge_of(table)
    >>> judge((7, "eu")), judge((1, "eu")), judge((None, "eu"))
    (True, False, None)

    Args:
        sql: What would stand behind WHERE; InvalidCapture if it is more than we understand.
    """

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._tokens: list[tuple[str, str]] = []
        place, end = 0, len(sql.rstrip())
        while place < end:
            if (found := _TOKEN.match(sql, place)) is None:
                self._refuse(f"at {sql[place:].strip()[:20]!r}")
            kind = found.lastgroup or ""
            self._tokens.append((kind, found[kind]))
            place = found.end()

    def names(self, column: str) -> bool:
        """Whether it is about a column."""
        return any(
            kind in ("word", "quoted") and text.strip('`"').lower() == column.lower()
            for kind, text in self._tokens
        )

    def judge_of(self, table: Table) -> Judge:
        """How rows of a table are judged; InvalidCapture if they cannot be."""
        reading = _Reading(self._tokens, table, self._refuse)
        judge = reading.any_of()
        if not reading.is_over:
            self._refuse(f"at {reading.next_text!r}")
        return judge

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidCapture(
            f"The condition {self._sql!r} is not understood, {why}. On MariaDB and MySQL it may "
            "compare columns with literals by =, <>, <, <=, >, >=, IN, BETWEEN and IS NULL, joined "
            "by AND, OR and NOT."
        )


class _Reading:
    """Reads tokens from left to right, and gives what judges rows of a table."""

    def __init__(
        self, tokens: list[tuple[str, str]], table: Table, refuse: Callable[[str], NoReturn]
    ) -> None:
        self._tokens = tokens
        self._table = table
        self._refuse = refuse
        self._place = 0

    @property
    def is_over(self) -> bool:
        return self._place == len(self._tokens)

    @property
    def next_text(self) -> str:
        return "its end" if self.is_over else self._tokens[self._place][1]

    def any_of(self) -> Judge:
        judges = [self._all_of()]
        while self._takes("OR"):
            judges.append(self._all_of())
        return judges[0] if len(judges) == 1 else lambda row: _any(judges, row)

    def _all_of(self) -> Judge:
        judges = [self._one()]
        while self._takes("AND"):
            judges.append(self._one())
        return judges[0] if len(judges) == 1 else lambda row: _all(judges, row)

    def _one(self) -> Judge:
        if self._takes("NOT"):
            return _not(self._one())
        if self._takes("("):
            judge = self.any_of()
            self._expect(")")
            return judge
        return self._comparison()

    def _comparison(self) -> Judge:
        place = self._column()
        if self._takes("IS"):
            negated = self._takes("NOT")
            self._expect("NULL")
            return lambda row: (row[place] is None) is not negated
        negated = self._takes("NOT")
        if self._takes("IN"):
            return _not(self._listed(place)) if negated else self._listed(place)
        if self._takes("BETWEEN"):
            low = self._literal(place)
            self._expect("AND")
            high = self._literal(place)
            bounds = [_compared(place, operator.ge, low), _compared(place, operator.le, high)]
            judge: Judge = lambda row: _all(bounds, row)  # noqa: E731
            return _not(judge) if negated else judge
        if negated or self.next_text not in _COMPARISONS:
            self._refuse(f"at {self.next_text!r}")
        compare = _COMPARISONS[self._take()[1]]
        return _compared(place, compare, self._literal(place))

    def _listed(self, place: int) -> Judge:
        self._expect("(")
        judges = [_compared(place, operator.eq, self._literal(place))]
        while self._takes(","):
            judges.append(_compared(place, operator.eq, self._literal(place)))
        self._expect(")")
        return lambda row: _any(judges, row)

    def _column(self) -> int:
        kind, text = self._take()
        if kind not in ("word", "quoted"):
            self._refuse(f"at {text!r}, where a column was expected")
        name = text[1:-1].replace(text[0] * 2, text[0]) if kind == "quoted" else text
        # Names of columns are the same in capitals.
        names = [each.lower() for each in self._table.names]
        if name.lower() not in names:
            self._refuse(f"since {self._table.name} has no column {name} that is told")
        return names.index(name.lower())

    def _literal(self, place: int) -> Any:
        kind, text = self._take()
        type_ = self._table.columns[place].type
        named = f"{self._table.names[place]} {type_.name}"
        if kind == "number" and type_.kind in _NUMBERS:
            return Decimal(text)
        if kind != "text" or type_.kind not in (*_TEXTS, *_DATES):
            self._refuse(f"at {text!r}, which cannot be compared with {named}")
        plain = text[1:-1].replace("''", "'")
        if (parse := parser_of(type_)) is None:
            return plain
        if type_.kind is not TypeKind.DATE and " " not in plain:
            plain += " 00:00:00"
        value = None
        with suppress(ValueError):
            value = parse(plain)
        if value is None:
            self._refuse(f"at {text!r}, which is not a value of {named}")
        return value

    def _take(self) -> tuple[str, str]:
        if self.is_over:
            self._refuse("at its end")
        self._place += 1
        return self._tokens[self._place - 1]

    def _takes(self, wanted: str) -> bool:
        if self.is_over or self._tokens[self._place][0] not in ("word", "sign"):
            return False
        found = self._tokens[self._place][1].upper() == wanted
        self._place += found
        return found

    def _expect(self, wanted: str) -> None:
        if not self._takes(wanted):
            self._refuse(f"at {self.next_text!r}, where {wanted} was expected")


def _compared(place: int, compare: Callable[[Any, Any], bool], literal: Any) -> Judge:
    def judge(row: Row) -> bool | None:
        value = row[place]
        return None if value is None else compare(value, literal)

    return judge


def _not(judge: Judge) -> Judge:
    def opposite(row: Row) -> bool | None:
        found = judge(row)
        return None if found is None else not found

    return opposite


def _any(judges: list[Judge], row: Row) -> bool | None:
    found = [judge(row) for judge in judges]
    return True if True in found else None if None in found else False


def _all(judges: list[Judge], row: Row) -> bool | None:
    found = [judge(row) for judge in judges]
    return False if False in found else None if None in found else True
