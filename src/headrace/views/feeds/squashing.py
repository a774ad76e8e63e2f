"""Many changes as one for each key: what those get who are behind.

Let a subscriber know the view at sequence s, and let e > s. For each key that has changed in
between, only the row at s and the row at e matter; both are in the history: the row before the
first change, and the row after the last. Applying these gives the view at e.
"""

from collections.abc import Iterable
from typing import Any

import orjson

from headrace.views.feeds.channel import Scope
from headrace.views.feeds.encoding import encoded_change
from headrace.views.materialized.store import Change


def squashed(changes: Iterable[Change], scope: Scope) -> list[bytes]:
    """One change for each key in scope whose row is another one in the end."""
    spans: dict[str, tuple[bytes | None, bytes | None]] = {}
    for each in changes:
        first = spans[each.key][0] if each.key in spans else each.before
        spans[each.key] = (first, each.after)
    told = []
    for key, (before, after) in spans.items():
        if before == after:
            continue
        had, has = scope.has(key, _parsed(before)), scope.has(key, _parsed(after))
        if had or has:
            told.append(encoded_change(key, had, after if has else None))
    return told


def _parsed(row: bytes | None) -> Any:
    return None if row is None else orjson.loads(row)
