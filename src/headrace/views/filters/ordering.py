"""In which order rows are wanted: `total desc, name`, and at last always by key."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

from headrace.views.filters.evaluating import kind_of, value_at
from headrace.views.filters.language import (
    LONGEST,
    Column,
    InvalidFilter,
    parse_column,
    require_columns,
)

_KINDS = {float: 0, str: 1, bool: 2}
"""In which order values of different kinds come; whatever is none of them comes last."""


@dataclass(frozen=True, slots=True)
class Order:
    """A column by which rows are ordered."""

    column: Column
    descending: bool = False


def parse_order(text: str, columns: Iterable[str] | None = None) -> tuple[Order, ...]:
    """The columns of an order, the weightiest first; InvalidFilter says what is wrong.

    >>> [(str(each.column), each.descending) for each in parse_order("total desc, name")]
    [('total', True), ('name', False)]
    """
    if len(text) > LONGEST:
        raise InvalidFilter(f"An order may have up to {LONGEST:,} characters, not {len(text):,}.")
    found = []
    for part in text.split(","):
        name, _, direction = part.strip().rpartition(" ")
        if not name or direction.lower() not in ("asc", "desc"):
            name, direction = part.strip(), "asc"
        found.append(Order(parse_column(name.strip()), direction.lower() == "desc"))
    if columns is not None:
        require_columns((each.column for each in found), columns)
    return tuple(found)


def sort_key(order: Sequence[Order], key: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a row is sorted by; rows that are equal in all columns come by their keys."""
    parts: list[Any] = []
    for each in order:
        value = value_at(row, each.column)
        kind = kind_of(value)
        parts.append(3 if kind is None else _KINDS[kind])
        parts.append(None if kind is None else _Turned(value) if each.descending else value)
    return (*((0,) if part is None else part for part in parts), key)


@total_ordering
class _Turned:
    """A value that sorts the other way around."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Turned) and self._value == other._value

    def __lt__(self, other: "_Turned") -> bool:
        return bool(self._value > other._value)

    __hash__ = None  # type: ignore[assignment]
