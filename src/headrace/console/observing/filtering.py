"""Which records somebody wants to see: words, or a comparison with a field.

refund                  records with that word in their key or value, in any case
total > 100             records whose field is a number above that
customer.name = Ada     a field of a field; != is the contrary
after.status ~ ^paid    a field that matches a regular expression
key = 17, partition = 0, offset >= 40    and what the record itself has
"""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headrace.console.observing.records import RecordSeen
from headrace.errors import HeadraceError

_COMPARISON: Final = re.compile(r"^([\w.@-]+)\s*(>=|<=|!=|=|>|<|~)\s*(.+)$")

_NUMERIC: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


class InvalidFilter(HeadraceError):
    """A filter that cannot be understood."""


class _Missing(NamedTuple):
    """What a field is that a record does not have."""


_MISSING: Final = _Missing()

Filter = Callable[[RecordSeen], bool]


def parse_filter(text: str) -> Filter:
    """A function that tells whether a record is wanted; InvalidFilter says what is wrong."""
    text = text.strip()
    if not text:
        return lambda record: True
    if (found := _COMPARISON.match(text)) is None:
        word = text.casefold()
        return lambda record: (
            word in record.key.text.casefold() or word in record.value.text.casefold()
        )
    path, sign, wanted = found[1], found[2], found[3].strip().strip("\"'")
    if sign in _NUMERIC:
        try:
            limit = float(wanted)
        except ValueError:
            raise InvalidFilter(f"{sign} compares with a number, and {wanted} is none.") from None
        compare = _NUMERIC[sign]
        return lambda record: (
            (number := _number(_field(record, path))) is not None and compare(number, limit)
        )
    if sign == "~":
        try:
            pattern = re.compile(wanted)
        except re.error as error:
            raise InvalidFilter(f"{wanted} is no regular expression: {error}.") from None
        return lambda record: (
            not isinstance(value := _field(record, path), _Missing)
            and pattern.search(_text(value)) is not None
        )
    same = sign == "="
    return lambda record: (
        not isinstance(value := _field(record, path), _Missing)
        and (_text(value).casefold() == wanted.casefold()) is same
    )


def _field(record: RecordSeen, path: str) -> Any:
    own = {"key": record.key.text, "partition": record.partition, "offset": record.offset}
    if path in own:
        return own[path]
    found = _inside(record.value.value, path)
    if isinstance(found, _Missing) and record.value.change is not None:
        # Of a change people mean the row as it is now, if they say no more.
        row = record.value.change.after or record.value.change.before
        found = _inside(row, path)
    return found


def _inside(value: Any, path: str) -> Any:
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return _MISSING
        value = value[name]
    return value


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, (_Missing, bool)) else float(value)
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
