"""By which columns the rows of a join of tables are told apart.

A row of the result is a row of the left table, one of the right table, or a pair. If a row has at
most one partner, since the join is on all of the partner's key, its own key is enough; but only if
no row of the other side stands alone. Otherwise it takes both keys, of which one is null where a
row stands alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.streams.joins.columns import Naming
from headrace.streams.names import checked_choice

HOW: Final = ("inner", "left", "right", "full")


@dataclass(frozen=True, slots=True)
class JoinedKey:
    """The key of a join's result."""

    columns: tuple[str, ...]
    """Under the names that they have in the result."""

    scattered: bool
    """Whether a row can be in one bucket before a batch and in another after it. Then its changes
    have to be settled before they are applied one after the other."""


def joined_key(
    left_key: Sequence[str],
    left_on: Sequence[str],
    right_key: Sequence[str],
    right_on: Sequence[str],
    how: str,
    naming: Naming,
) -> JoinedKey:
    """The key of the result of a join of two tables with these keys on these columns.

    >>> from headrace.streams.joins.columns import naming
    >>> names = naming(["id", "user"], ["user", "city"], {"user": "user"})
    >>> joined_key(["id"], ["user"], ["user"], ["user"], "left", names)
    JoinedKey(columns=('id',), scattered=True)
    """
    checked_choice("how", how, HOW)
    right_names = {**naming.right, **{each: each for each in naming.shared}}
    ours, theirs = tuple(left_key), tuple(right_names[each] for each in right_key)
    if how in ("inner", "left") and set(right_key) <= set(right_on):
        columns = ours
    elif how in ("inner", "right") and set(left_key) <= set(left_on):
        columns = theirs
    else:
        columns = tuple(dict.fromkeys((*ours, *theirs)))
    # A row is in the bucket of its join values: where the key has them, it cannot move.
    known = [
        (each in columns, right_names[other] in columns)
        for each, other in zip(left_on, right_on, strict=True)
    ]
    stays = all(left or right for left, right in known)
    if how in ("left", "full"):
        stays &= all(left for left, _ in known)
    if how in ("right", "full"):
        stays &= all(right for _, right in known)
    return JoinedKey(columns, not stays)
