"""Reading a view: as it is, or as it was at an earlier sequence or position.

A store has the rows of now and the changes of the last time. What it was before follows from both:
every key that has changed since had, before its first change since, the row that this change says.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from headrace.views.errors import ViewsError
from headrace.views.filters import Filter, Order, matches, sort_key
from headrace.views.materialized.store import Change, KeyedRow, Snapshot

_PIECE: Final = 500
"""Changes that are looked at first, when it is not known how many are needed."""


class HistoryGone(ViewsError):
    """A view cannot be read as it was then: it no longer has the changes since."""

    def __init__(self, wanted: object, oldest: int) -> None:
        super().__init__(
            f"The view is no longer known as it was at {wanted}; its history begins at {oldest}. "
            "Read it as it is now, or give the view a longer history."
        )


@dataclass(frozen=True, slots=True)
class Query:
    """Which rows are wanted."""

    where: Filter | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0


Past = Mapping[str, bytes | None]
"""Keys that have changed since some time, with the rows that they had then."""


def past(snapshot: Snapshot, sequence: int) -> dict[str, bytes | None]:
    """What was different at a sequence; raises HistoryGone."""
    if not snapshot.state.oldest <= sequence <= snapshot.state.sequence:
        raise HistoryGone(sequence, snapshot.state.oldest)
    return _first(snapshot.changes(sequence, snapshot.state.sequence))


def past_offsets(snapshot: Snapshot, offsets: Mapping[int, int]) -> dict[str, bytes | None]:
    """What was different when the topic was applied up to these offsets and no further.

    Of a partition that is not given nothing was applied: who asks did not know it then. Looks at
    changes from the last one back, as far as it has to. Raises HistoryGone.
    """
    oldest, until = snapshot.state.oldest, snapshot.state.sequence
    reached = snapshot.state.offsets
    # Partitions that are further now, and of which no change that counts was seen yet.
    ahead = {number for number, offset in reached.items() if offset > offsets.get(number, 0)}
    pieces: list[list[Change]] = []
    size = _PIECE
    while ahead and until > oldest:
        after = max(oldest, until - size)
        piece = snapshot.changes(after, until)
        pieces.append(piece)
        ahead -= {each.partition for each in piece if each.offset < offsets.get(each.partition, 0)}
        until, size = after, size * 2
    if ahead and oldest > 0:
        number = min(ahead)
        raise HistoryGone(f"offset {offsets.get(number, 0)} of partition {number}", oldest)
    changes = (each for piece in reversed(pieces) for each in piece)
    return _first(each for each in changes if each.offset >= offsets.get(each.partition, 0))


def select(snapshot: Snapshot, query: Query, before: Past | None = None) -> list[KeyedRow]:
    """The rows that a query wants, now or, with what was different before, then."""
    limit = None if query.limit is None else query.limit + query.offset
    if not before:
        found = snapshot.select(query.where, query.order, limit=limit)
        return found[query.offset :]
    enough = None if limit is None else limit + len(before)
    rows = [
        each
        for each in snapshot.select(query.where, query.order, limit=enough)
        if each.key not in before
    ]
    rows += _wanted(before, query.where)
    rows.sort(key=lambda each: sort_key(query.order, each.key, _parsed(each.row)))
    return rows[query.offset : limit]


def get(snapshot: Snapshot, keys: Sequence[str], before: Past | None = None) -> list[KeyedRow]:
    """The rows of keys, in the order of the keys."""
    found: dict[str, bytes | None] = dict(snapshot.get(keys))
    found.update({key: row for key, row in (before or {}).items() if key in keys})
    rows = ((key, found.get(key)) for key in dict.fromkeys(keys))
    return [KeyedRow(key, row) for key, row in rows if row is not None]


def count(snapshot: Snapshot, where: Filter | None, before: Past | None = None) -> int:
    """How many rows a filter wants."""
    number = snapshot.count(where)
    if before:
        now = [each for each in snapshot.get(list(before)) if matches(where, _parsed(each.row))]
        number += len(_wanted(before, where)) - len(now)
    return number


def page(
    snapshot: Snapshot,
    where: Filter | None,
    before: Past,
    *,
    after_key: str | None,
    limit: int,
) -> tuple[list[KeyedRow], str | None]:
    """Rows by key from behind one, as they were then, and the key to go on from if there are more.

    May have fewer rows than asked for although there are more.
    """
    now = snapshot.select(where, limit=limit, after_key=after_key)
    more = len(now) == limit
    rows = {each.key: each for each in now if each.key not in before}
    for each in _wanted(before, where):
        if (after_key is None or each.key > after_key) and (not more or each.key <= now[-1].key):
            rows[each.key] = each
    return [rows[key] for key in sorted(rows)], now[-1].key if more else None


def _first(changes: Iterable[Change]) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for each in changes:
        found.setdefault(each.key, each.before)
    return found


def _wanted(before: Past, where: Filter | None) -> list[KeyedRow]:
    return [
        KeyedRow(key, row)
        for key, row in before.items()
        if row is not None and (where is None or matches(where, _parsed(row)))
    ]


def _parsed(row: bytes) -> Any:
    return orjson.loads(row)
