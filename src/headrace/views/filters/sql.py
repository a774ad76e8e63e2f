"""Filters and orders as SQL over a column of JSON, for SQLite and PostgreSQL.

Every literal and every path is a parameter; the text of the SQL is made of constants only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.views.filters.evaluating import kind_of
from headrace.views.filters.language import (
    And,
    Between,
    Column,
    Comparison,
    Filter,
    InvalidFilter,
    IsNull,
    Literal,
    Not,
    OneOf,
    Or,
    TextTest,
)
from headrace.views.filters.ordering import Order


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL and its parameters."""

    text: str
    parameters: tuple[object, ...] = ()


class Dialect(Protocol):
    """How a database looks into JSON."""

    mark: str
    """Where a parameter goes."""

    def typed(self, column: Column, kind: type[object] | None) -> Sql:
        """A column as a value of a kind; null if it is of another one."""
        ...

    def rank(self, column: Column) -> Sql:
        """A number by which values of different kinds are ordered."""
        ...

    def is_null(self, column: Column) -> Sql:
        """Whether it is null or not there."""
        ...

    def contains(self, value: str) -> str:
        """Whether a text has the parameter in it."""
        ...

    def starts(self, value: str) -> str:
        """Whether a text begins with the parameter."""
        ...


class Sqlite:
    """SQLite, with rows as text in the column `value`."""

    mark = "?"
    _RANKS: Final = (
        "CASE json_type(value, ?) WHEN 'integer' THEN 0 WHEN 'real' THEN 0 WHEN 'text' THEN 1 "
        "WHEN 'true' THEN 2 WHEN 'false' THEN 2 ELSE 3 END"
    )

    def typed(self, column: Column, kind: type[object] | None) -> Sql:
        """`json_type` tells numbers, texts and booleans apart, which `json_extract` does not."""
        path = self._path(column)
        if kind is bool:
            return Sql("CASE json_type(value, ?) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END", path)
        kinds = "'text'" if kind is str else "'integer', 'real'"
        return Sql(
            f"CASE WHEN json_type(value, ?) IN ({kinds}) THEN json_extract(value, ?) END", path * 2
        )

    def rank(self, column: Column) -> Sql:
        """By its type."""
        return Sql(self._RANKS, self._path(column))

    def is_null(self, column: Column) -> Sql:
        """JSON's null and a column that is not there are one."""
        return Sql("coalesce(json_type(value, ?), 'null') = 'null'", self._path(column))

    def contains(self, value: str) -> str:
        """`instr` takes letters as they are."""
        return f"instr({value}, ?) > 0"

    def starts(self, value: str) -> str:
        """`like` would not tell capital letters from small ones."""
        return f"instr({value}, ?) = 1"

    def _path(self, column: Column) -> tuple[object, ...]:
        return ("$" + "".join(f'."{each}"' for each in column.path),)


class Postgres:
    """PostgreSQL, with rows as text in the column `value`."""

    mark = "%s"
    _RANKS: Final = (
        "CASE jsonb_typeof(value::jsonb #> %s) WHEN 'number' THEN 0 WHEN 'string' THEN 1 "
        "WHEN 'boolean' THEN 2 ELSE 3 END"
    )
    _TYPED: Final = (
        "CASE jsonb_typeof(value::jsonb #> %s) WHEN '{kind}' THEN (value::jsonb #>> %s){cast} END"
    )

    def typed(self, column: Column, kind: type[object] | None) -> Sql:
        """Texts are compared by code points, whatever the database's collation is."""
        path = self._path(column) * 2
        if kind is str:
            return Sql(f'{self._TYPED.format(kind="string", cast="")} COLLATE "C"', path)
        known, cast = ("boolean", "::boolean") if kind is bool else ("number", "::numeric")
        return Sql(self._TYPED.format(kind=known, cast=cast), path)

    def rank(self, column: Column) -> Sql:
        """By its type."""
        return Sql(self._RANKS, self._path(column))

    def is_null(self, column: Column) -> Sql:
        """JSON's null and a column that is not there are one."""
        return Sql(
            "coalesce(jsonb_typeof(value::jsonb #> %s), 'null') = 'null'", self._path(column)
        )

    def contains(self, value: str) -> str:
        """`strpos` takes letters as they are."""
        return f"strpos({value}, %s) > 0"

    def starts(self, value: str) -> str:
        """Likewise."""
        return f"starts_with({value}, %s)"

    def _path(self, column: Column) -> tuple[object, ...]:
        return (list(column.path),)


def condition(part: Filter | None, dialect: Dialect) -> Sql:
    """A filter as a condition, which is true of the rows that are wanted."""
    return Sql("1 = 1") if part is None else _condition(part, dialect)


def ordering(order: Sequence[Order], dialect: Dialect, key: str = "key") -> Sql:
    """The columns behind ORDER BY; at last by `key`, so that it is always the same order."""
    parts: list[Sql] = []
    for each in order:
        direction = " DESC" if each.descending else ""
        parts.append(dialect.rank(each.column))
        for kind in (float, str, bool):
            typed = dialect.typed(each.column, kind)
            parts.append(Sql(f"{typed.text}{direction}", typed.parameters))
    return _joined((*parts, Sql(key)), ", ")


def _condition(part: Filter, dialect: Dialect) -> Sql:
    match part:
        case And(parts):
            return _bracketed(_joined([_condition(each, dialect) for each in parts], " AND "))
        case Or(parts):
            return _bracketed(_joined([_condition(each, dialect) for each in parts], " OR "))
        case Not(inner):
            found = _condition(inner, dialect)
            return Sql(f"(NOT {found.text})", found.parameters)
        case IsNull(column):
            return _bracketed(dialect.is_null(column))
        case Comparison(column, sign, literal):
            return _compared(column, sign, literal, dialect)
        case OneOf(column, literals):
            same = [_compared(column, "=", each, dialect) for each in literals]
            return _bracketed(_joined(same, " OR "))
        case Between(column, low, high):
            both = (_compared(column, ">=", low, dialect), _compared(column, "<=", high, dialect))
            return _bracketed(_joined(both, " AND "))
        case TextTest(column, test, text):
            typed = dialect.typed(column, str)
            say = dialect.starts if test == "starts" else dialect.contains
            return Sql(f"({say(_closed(typed.text))})", (*typed.parameters, _without_nul(text)))


def _compared(column: Column, sign: str, literal: Literal, dialect: Dialect) -> Sql:
    typed = dialect.typed(column, kind_of(literal))
    value = _without_nul(literal) if isinstance(literal, str) else literal
    shown = "<>" if sign == "!=" else sign
    return Sql(f"({_closed(typed.text)} {shown} {dialect.mark})", (*typed.parameters, value))


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise InvalidFilter("A text in a filter cannot have a NUL character in it.")
    return text


def _closed(text: str) -> str:
    return f"({text})"


def _bracketed(sql: Sql) -> Sql:
    return Sql(f"({sql.text})", sql.parameters)


def _joined(parts: Sequence[Sql], separator: str) -> Sql:
    return Sql(
        separator.join(each.text for each in parts),
        tuple(one for each in parts for one in each.parameters),
    )
