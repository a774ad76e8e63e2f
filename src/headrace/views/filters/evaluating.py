"""What a filter says of one row: true, false or, None, unknown."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.views.filters.language import (
    And,
    Between,
    Column,
    Comparison,
    Filter,
    IsNull,
    Literal,
    Not,
    OneOf,
    Or,
    TextTest,
)

Row = Mapping[str, Any]
"""A row as JSON has it."""

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches(part: Filter | None, row: Row | None) -> bool:
    """Whether a row is wanted; no row never is, and without a filter every row is.

    >>> from headrace.views.filters.language import parse_filter
    >>> wanted = parse_filter("total > 10 and not country = 'DE'")
    >>> [matches(wanted, {"total": 11, "country": each}) for each in ("DE", "FR", None)]
    [False, True, False]
    """
    return row is not None and (part is None or _said(part, row) is True)


def value_at(row: Row, column: Column) -> Any:
    """What a row has in a column; None if it has none."""
    found: Any = row
    for name in column.path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def kind_of(value: object) -> type[object] | None:
    """What a value can be compared as: a float, a str, a bool, or None for nothing."""
    if isinstance(value, bool):
        return bool
    if isinstance(value, (int, float)):
        return float
    return str if isinstance(value, str) else None


def _said(part: Filter, row: Row) -> bool | None:
    match part:
        case Comparison(column, sign, literal):
            return _compared(value_at(row, column), sign, literal)
        case And(parts):
            return _all([_said(each, row) for each in parts])
        case Or(parts):
            said = _all([_opposite(_said(each, row)) for each in parts])
            return _opposite(said)
        case Not(inner):
            return _opposite(_said(inner, row))
        case IsNull(column):
            return value_at(row, column) is None
        case OneOf(column, literals):
            value = value_at(row, column)
            said = _all([_opposite(_compared(value, "=", each)) for each in literals])
            return _opposite(said)
        case Between(column, low, high):
            value = value_at(row, column)
            return _all([_compared(value, ">=", low), _compared(value, "<=", high)])
        case TextTest(column, test, text):
            value = value_at(row, column)
            if not isinstance(value, str):
                return None
            return value.startswith(text) if test == "starts" else text in value


def _compared(value: object, sign: str, literal: Literal) -> bool | None:
    if kind_of(value) is not kind_of(literal):
        return None
    return _COMPARE[sign](value, literal)


def _opposite(said: bool | None) -> bool | None:
    return None if said is None else not said


def _all(said: list[bool | None]) -> bool | None:
    if False in said:
        return False
    return None if None in said else True
