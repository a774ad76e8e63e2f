"""What requests say: filters, limits, times and keys."""

import base64
import binascii
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import orjson

from headrace.settings.units import parse_duration
from headrace.views.filters import parse_filter, parse_order
from headrace.views.materialized.lookup import Query
from headrace.views.materialized.records import key_text
from headrace.views.serving.answers import InvalidRequest
from headrace.views.serving.view import View

DEFAULT_LIMIT: Final = 100
MOST_ROWS: Final = 10_000
"""Rows of an answer, if a request does not say, and at most."""

_LONGEST_WAIT: Final = 300.0
"""Seconds that a request may wait."""


def query_from(given: Mapping[str, str], view: View) -> Query:
    """The query of a request."""
    where, order = given.get("where"), given.get("order")
    return Query(
        parse_filter(where, view.columns) if where else None,
        parse_order(order, view.columns) if order else (),
        whole(given, "limit", DEFAULT_LIMIT, MOST_ROWS),
        whole(given, "offset", 0, 1 << 31),
    )


def whole(given: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A whole number of a request."""
    text = given.get(name)
    if text is None:
        return default
    if not text.isdecimal() or int(text) > most:
        raise InvalidRequest(f"{name}={text} must be a whole number from 0 to {most:,}.")
    return int(text)


def seconds(given: Mapping[str, str], name: str, default: float) -> float:
    """A duration of a request: 2.5 are seconds, and 500ms are what they say."""
    text = given.get(name)
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        try:
            found = parse_duration(text) / 1000
        except ValueError as error:
            raise InvalidRequest(f"{name}: {error}.") from None
    if not 0 <= found <= _LONGEST_WAIT:
        raise InvalidRequest(f"{name} can be up to {_LONGEST_WAIT:g} seconds.")
    return found


def key_from(raw_path: bytes, view: View) -> str:
    """The key behind /views/NAME/: a part of the path for each of its columns."""
    path = raw_path.decode("ascii").partition("?")[0]
    parts = [unquote(each) for each in path.lstrip("/").split("/")[2:]]
    columns = view.description.key
    if len(parts) != max(len(columns), 1):
        wanted = "/".join(columns) or "KEY"
        raise InvalidRequest(
            f"Rows of {view.description.name} are found by /views/{view.description.name}/{wanted}"
            "; a slash inside of a key is written %2F."
        )
    return key_text(parts)


def cursor(handle: str, sequence: int, offset: int) -> str:
    """Where the next page of an answer begins: of which state of the view, and where in that."""
    return base64.urlsafe_b64encode(orjson.dumps([handle, sequence, offset])).decode().rstrip("=")


def cursor_from(text: str) -> tuple[str, int, int]:
    """Read one; InvalidRequest if it is none."""
    try:
        padded = text + "=" * (-len(text) % 4)
        handle, sequence, offset = orjson.loads(base64.urlsafe_b64decode(padded))
        if type(handle) is str and type(sequence) is type(offset) is int and offset >= 0:
            return handle, sequence, offset
    except (ValueError, TypeError, binascii.Error):
        pass
    raise InvalidRequest("cursor is not one that an answer gave as `next`.")
