"""Which transactions a snapshot of the database sees.

PostgreSQL writes a commit to its log a moment before others see it; if it waits for a standby, the
moment may be long. The log names transactions by 32 bits, snapshots by 64.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

_XIDS: Final = 1 << 32

_RUNNING_SQL: Final = """
SELECT transactionid::text FROM pg_locks
WHERE locktype = 'transactionid' AND granted AND mode = 'ExclusiveLock'
"""
"""Every transaction that has a number holds a lock on it until others see its effects."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """What pg_current_snapshot() says: "xmin:xmax:xip,xip"."""

    end: int
    """Transactions from this one on are not seen."""

    under_way: frozenset[int]
    """Earlier ones that are not seen either."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """As PostgreSQL prints it.

        >>> Visibility.parse("10:20:10,14").sees(15), Visibility.parse("10:20:10,14").sees(14)
        (True, False)
        >>> Visibility.parse("10:20:10,14").sees(20)
        False
        """
        _, end, listed = text.split(":")
        under_way = frozenset(int(each) % _XIDS for each in listed.split(",") if each)
        return cls(int(end) % _XIDS, under_way)

    def sees(self, xid: int) -> bool:
        """Whether the effects of a transaction that committed are seen."""
        later = (xid - self.end) % _XIDS < _XIDS // 2
        return not later and xid not in self.under_way


def running(cursor: Any) -> list[int]:
    """The transactions that are under way, or that nobody sees yet."""
    cursor.execute(_RUNNING_SQL)
    return [int(xid) for (xid,) in cursor.fetchall()]


def visibility(cursor: Any) -> Visibility:
    """What the next statement sees; within a transaction, what all of its statements do."""
    cursor.execute("SELECT pg_current_snapshot()::text")
    return Visibility.parse(cursor.fetchone()[0])
