"""What the coordinator remembers of every transactional id; it survives a restart and a crash."""

from collections.abc import Iterator
from typing import Final

from headrace.broker.transactions.entries import Entry, Forgotten, decode, encode
from headrace.broker.transactions.state import TransactionRecord
from headrace.log import Journal

COMPACTION_FLOOR: Final = 1 << 20
"""A journal with fewer bytes than this is not worth rewriting."""

COMPACTION_RATIO: Final = 10
"""How many times larger than its live entries a journal may grow."""


class TransactionStore:
    """The records of all transactional ids, in memory, with a journal behind them.

    Every change is written to the journal before it can be seen, and is safe once the journal has
    been flushed. A change that the disk refuses raises `StorageError` and has not happened.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._records: dict[str, TransactionRecord] = {}
        self._compact_size = 0

    @classmethod
    def open(cls, journal: Journal) -> "TransactionStore":
        """The transactional ids that a journal tells of."""
        store = cls(journal)
        for payload in journal.entries():
            store._apply(decode(payload))
        store._compact_size = sum(len(encode(record)) for record in store)
        return store

    def __iter__(self) -> Iterator[TransactionRecord]:
        """Every record; the store must not change meanwhile."""
        return iter(self._records.values())

    def __len__(self) -> int:
        """How many transactional ids are known."""
        return len(self._records)

    def get(self, transactional_id: str) -> TransactionRecord | None:
        """What is known of a transactional id."""
        return self._records.get(transactional_id)

    def put(self, record: TransactionRecord) -> None:
        """Remember a transactional id, or what has become of it."""
        self.journal.append(encode(record))
        self._records[record.transactional_id] = record

    def put_unwritten(self, record: TransactionRecord) -> None:
        """Remember what would follow from the journal anyway."""
        self._records[record.transactional_id] = record

    def forget(self, transactional_id: str) -> None:
        """Forget a transactional id."""
        self.journal.append(encode(Forgotten(transactional_id)))
        self._records.pop(transactional_id, None)

    def compact_if_due(self) -> bool:
        """Rewrite the journal if most of it is history; blocks on the disk while it does."""
        if self.journal.size < max(COMPACTION_FLOOR, COMPACTION_RATIO * self._compact_size):
            return False
        self.journal.rewrite(map(encode, self._records.values()))
        self._compact_size = self.journal.size
        return True

    def _apply(self, entry: Entry) -> None:
        if isinstance(entry, Forgotten):
            self._records.pop(entry.transactional_id, None)
        else:
            self._records[entry.transactional_id] = entry
