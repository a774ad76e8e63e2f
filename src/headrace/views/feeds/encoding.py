"""Changes and rows as JSON, and events as they go over an event stream."""

from collections.abc import Iterable

import orjson

from headrace.views.feeds.tokens import Token
from headrace.views.materialized.store import KeyedRow

KEEP_ALIVE = b": still here\n\n"
"""A comment, which subscribers do not see and proxies do."""


def encoded_change(key: str, had: bool, row: bytes | None) -> bytes:
    """A change as a subscriber sees it: of a row that it had or had not, to a row or none."""
    name = orjson.dumps(key)
    if row is None:
        return b'{"op":"delete","key":%b}' % name
    return b'{"op":"%b","key":%b,"row":%b}' % (b"update" if had else b"insert", name, row)


def encoded_rows(rows: Iterable[KeyedRow]) -> bytes:
    """Rows with their keys, as a list."""
    return b"[%b]" % b",".join(
        b'{"key":%b,"row":%b}' % (orjson.dumps(key), row) for key, row in rows
    )


def event(name: str, data: bytes, token: Token | None = None) -> bytes:
    """An event of an event stream; what it carries is one line of JSON."""
    identity = b"" if token is None else b"id: %b\n" % str(token).encode()
    return b"event: %b\n%bdata: %b\n\n" % (name.encode(), identity, data)
