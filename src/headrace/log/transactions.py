"""What a log knows of transactions: which are open, which were aborted, what is stable.

A transaction begins in a log with its producer's first transactional batch and ends with a marker.
Until then nothing from its first record on is *stable*: a reader of committed records must stop
there. Records of an aborted transaction stay in the log; readers are told whose records to skip.
"""

import struct
from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple, Self

from headrace.log.errors import CorruptFile
from headrace.records import BatchHeader, Marker

_COUNTS: Final = struct.Struct("<III")
_OPEN: Final = struct.Struct("<qq")
_EPOCH: Final = struct.Struct("<qi")
_ABORTED: Final = struct.Struct("<qqqq")


class AbortedTransaction(NamedTuple):
    """A transaction whose records do not count."""

    producer_id: int
    first_offset: int
    """The transaction's first record."""
    last_offset: int
    """The marker that ended it."""
    last_stable_offset: int
    """Every transaction that ends later began at this offset or behind it."""


class TransactionsMoment(NamedTuple):
    """The transactions of a log at one moment; nobody changes it, so any thread may read it."""

    open: Mapping[int, int]
    aborted: Sequence[AbortedTransaction]
    coordinator_epochs: Mapping[int, int]


class Transactions:
    """The transactions of one log; belongs to the log's owner.

    A transaction that has ended stays unstable until it is revealed. So a marker can wait for the
    disk, and for the markers of the same transaction in other logs.
    """

    __slots__ = ("_aborted", "_coordinator_epochs", "_ended", "_open", "first_unstable")

    def __init__(self) -> None:
        # First offset by producer; a dictionary keeps them in order, the oldest first.
        self._open: dict[int, int] = {}
        # First offset by that of the marker, of transactions that are not revealed yet.
        self._ended: dict[int, int] = {}
        self._aborted: list[AbortedTransaction] = []
        self._coordinator_epochs: dict[int, int] = {}
        self.first_unstable: int | None = None
        """The first record that may still turn out not to count; None if there is none."""

    @property
    def open(self) -> Mapping[int, int]:
        """The first offsets of open transactions, by producer."""
        return self._open

    def coordinator_epoch(self, producer_id: int) -> int:
        """The epoch of the coordinator that ended the producer's last transaction; -1 if none."""
        return self._coordinator_epochs.get(producer_id, -1)

    def record(self, producer_id: int, offset: int) -> None:
        """Take note of a transactional batch; the first one begins a transaction."""
        if producer_id not in self._open:
            self._open[producer_id] = offset
            if self.first_unstable is None:
                self.first_unstable = offset

    def end(self, marker: Marker, offset: int) -> None:
        """Take note of a marker at an offset; what it ends stays unstable until `reveal`."""
        producer_id = marker.producer_id
        self._coordinator_epochs[producer_id] = marker.coordinator_epoch
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return
        self._ended[offset] = first_offset
        if not marker.commit:
            following = next(iter(self._open.values()), offset + 1)
            self._aborted.append(AbortedTransaction(producer_id, first_offset, offset, following))

    def reveal(self, marker_offset: int) -> bool:
        """Let a transaction that has ended become stable; return whether anything else did."""
        if self._ended.pop(marker_offset, None) is None:
            return False
        before = self.first_unstable
        self._find_first_unstable()
        return self.first_unstable != before

    def replay(self, header: BatchHeader, marker: Marker | None) -> None:
        """Take note of a transactional batch, or a marker, that was found in the log."""
        if marker is None:
            self.record(header.producer_id, header.base_offset)
        else:
            self.end(marker, header.base_offset)
            self.reveal(header.base_offset)

    def aborted(self, first: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with anything from `first` to before `end`, by their ends.

        A record in that range was aborted exactly if it is transactional and one of these has its
        producer and spans its offset; as far as markers were revealed.
        """
        if not self._aborted:
            return []
        found = []
        start = bisect_left(self._aborted, first, key=_last_offset)
        for number in range(start, len(self._aborted)):
            transaction = self._aborted[number]
            if transaction.first_offset < end:
                found.append(transaction)
            if transaction.last_stable_offset >= end:
                break
        return found

    def aborted_by(self, first: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions whose marker lies from `first` to before `end`."""
        start = bisect_left(self._aborted, first, key=_last_offset)
        return self._aborted[start : bisect_left(self._aborted, end, key=_last_offset)]

    def forget(self, aborted: Container[AbortedTransaction]) -> None:
        """Forget aborted transactions of which the log has nothing left, not even the marker."""
        self._aborted = [each for each in self._aborted if each not in aborted]

    def prune(self, start_offset: int) -> None:
        """Forget aborted transactions that lie wholly before an offset."""
        del self._aborted[: bisect_left(self._aborted, start_offset, key=_last_offset)]

    def truncate(self, end_offset: int) -> None:
        """Forget what the log no longer has at its end; what lost only its marker is open again."""
        while self._aborted and self._aborted[-1].last_offset >= end_offset:
            reopened = self._aborted.pop()
            self._open[reopened.producer_id] = reopened.first_offset
        kept = sorted(
            ((first, producer) for producer, first in self._open.items() if first < end_offset)
        )
        self._open = {producer_id: first_offset for first_offset, producer_id in kept}
        self._find_first_unstable()

    def forget_producers(self, known: Mapping[int, object]) -> None:
        """Forget who ended the transactions of producers that the log no longer remembers."""
        epochs = self._coordinator_epochs
        if len(epochs) > len(known):
            self._coordinator_epochs = {key: epochs[key] for key in epochs if key in known}

    def moment(self) -> TransactionsMoment:
        """A copy of everything that a checkpoint has to say."""
        return TransactionsMoment(
            self._open.copy(), self._aborted.copy(), self._coordinator_epochs.copy()
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what `encode` wrote; `CorruptFile` if it did not."""
        transactions = cls()
        if not data:
            return transactions
        try:
            opened, epochs, aborted = _COUNTS.unpack_from(data)
            position = _COUNTS.size
            sections = []
            for layout, count in ((_OPEN, opened), (_EPOCH, epochs), (_ABORTED, aborted)):
                end = position + count * layout.size
                sections.append(list(layout.iter_unpack(data[position:end])))
                position = end
        except struct.error as error:
            raise CorruptFile(f"the transactions' state is damaged: {error}") from error
        if [opened, epochs, aborted] != [len(section) for section in sections]:
            raise CorruptFile("the transactions' state is cut short")
        transactions._open = dict(sections[0])
        transactions._coordinator_epochs = dict(sections[1])
        transactions._aborted = [AbortedTransaction(*row) for row in sections[2]]
        transactions._find_first_unstable()
        return transactions

    def _find_first_unstable(self) -> None:
        first = next(iter(self._open.values()), None)
        if self._ended:
            ended = min(self._ended.values())
            first = ended if first is None else min(first, ended)
        self.first_unstable = first


def encode(moment: TransactionsMoment) -> bytes:
    """Write down transactions, for `Transactions.decode`."""
    opened, aborted, epochs = moment
    data = bytearray(_COUNTS.pack(len(opened), len(epochs), len(aborted)))
    for entry in opened.items():
        data += _OPEN.pack(*entry)
    for entry in epochs.items():
        data += _EPOCH.pack(*entry)
    for transaction in aborted:
        data += _ABORTED.pack(*transaction)
    return bytes(data)


def _last_offset(transaction: AbortedTransaction) -> int:
    return transaction.last_offset
