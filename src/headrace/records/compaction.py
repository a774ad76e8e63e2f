"""Compaction of stored batches: learn which record is the latest of its key, then keep only those.

A `Compactor` is for one round over one log. It is given the log's bytes twice, in pieces of whole
batches (`pieces`): first the part that was not compacted yet, to `learn` from it until its
memory is full, then everything from the log's start to the end of the round, to `filter` it. The
loops over records are compiled (`kernels.keys`, `kernels.filtering`); here are only loops over
batches. This module brings NumPy and Numba along, so a broker's process must not import it.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.records.codecs import compress
from headrace.records.header import (
    CONTROL,
    HEADER_SIZE,
    LENGTH_END,
    TRANSACTIONAL,
    Readable,
    read_header,
)
from headrace.records.kernels import filtering, keys, stored
from headrace.records.kernels.batches import MIN_RECORD_SIZE
from headrace.records.kernels.compiled import Bytes, Int64s
from headrace.records.kernels.records import RECORD_PROBLEMS
from headrace.records.pieces import Piece
from headrace.records.validate import write_checksum

MIN_MEMORY: Final = 1 << 20
"""What a compactor takes at least, whatever it is told."""

FOREVER: Final = (1 << 63) - 1
"""An offset that no record has."""

_SLOT_SIZE: Final = 16
_BYTES_PER_KEY: Final = 32


@dataclass(frozen=True, slots=True)
class LeftBatches:
    """What is left of a piece: batches to be written behind each other."""

    parts: Sequence[Readable]
    """Their bytes, valid until the next piece is filtered."""

    sizes: Int64s
    """The size of each batch."""

    offsets: Int64s
    """The first offset of each."""

    newest: Int64s
    """The newest timestamp of each, or -1 if it has no records."""

    last: bytes | None
    """The piece's last batch without its records, if it is not among those that are left."""

    last_offset: int
    """The first offset of the piece's last batch."""

    unchanged: bool
    """Whether every batch is as it was."""

    def newest_before(self, newest: int) -> Int64s:
        """The newest timestamp before each batch, and behind them, if it was `newest` at first."""
        return np.maximum.accumulate(np.concatenate(([newest], self.newest)))


class Compactor:
    """One round of compaction.

    `memory` bounds the table of keys. `first_dirty` is where the part begins that was not compacted
    yet. Tombstones that have to wait get a horizon at `horizon_ms`, and go when it is `now_ms`.
    `aborted` names transactions by producer id, first offset and their marker's offset; `producers`
    those that are active by id, the offset of their last record (or -1) and epoch.
    """

    def __init__(
        self,
        *,
        memory: int,
        first_dirty: int,
        dirty_bytes: int,
        now_ms: int,
        horizon_ms: int,
        aborted: Sequence[tuple[int, int, int]] = (),
        producers: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        self._memory = max(memory, MIN_MEMORY)
        self._first_dirty = first_dirty
        self._now_ms = now_ms
        self._horizon_ms = horizon_ms
        self._table = _new_table(self._memory, dirty_bytes)
        # A bit for each record of the part that was learned from.
        self._superseded = np.zeros(1 << 16, np.uint8)
        self._learned = 0
        self._filtered = 0
        self._aborted = stored.Aborted(*_columns(sorted(aborted), 3))
        self._producers = stored.Producers(*_columns(sorted(producers), 3))
        self._in_transaction: set[int] = set()
        self._target = bytearray()
        self._aside = np.empty(0, np.uint8)
        self._totals = np.zeros(filtering.TOTALS, np.int64)
        self.end = FOREVER
        """The offset up to which the round goes; known once everything was learned."""
        self._learned_end = first_dirty

    @property
    def records_read(self) -> int:
        """How many records were filtered."""
        return int(self._totals[filtering.RECORDS_READ])

    @property
    def records_kept(self) -> int:
        """How many of them are left."""
        return int(self._totals[filtering.RECORDS_KEPT])

    @property
    def keyless(self) -> int:
        """How many records had no key, and went for that."""
        return int(self._table.counts[keys.KEYLESS])

    @property
    def keys(self) -> int:
        """How many keys were learned."""
        return int(self._table.counts[keys.KEYS])

    def learn(self, piece: Piece) -> bool:
        """Note which records of a piece are the latest of their keys.

        Pieces come in the order of the log; batches before `first_dirty` are passed over. Returns
        False once the memory is full: the round ends before the batch that did not fit. Raises
        `MalformedBatch` if a batch is damaged.
        """
        first = int(np.searchsorted(piece.batches[:, stored.BASE_OFFSET], self._first_dirty))
        batches = piece.batches[first:]
        piece.verify(range(first, len(piece.batches)))
        self._judge(batches, set(), FOREVER)
        done = 0
        while done < len(batches):
            rest = batches[done:]
            self._make_room(rest)
            index, self._learned, problem = keys.mark_latest(
                piece.stored,
                piece.expanded,
                rest,
                self._superseded,
                self._learned,
                self._table,
                _scratch(rest),
            )
            if index:
                self._learned_end = int(rest[index - 1, stored.LAST_OFFSET]) + 1
            done += index
            if problem == keys.FULL:
                if not self.keys:
                    self._enlarge(batches[done])
                    continue
                self.end = int(batches[done, stored.BASE_OFFSET])
                return False
            if problem:
                raise piece.fault(first + done, RECORD_PROBLEMS[problem])
        return True

    def filter(self, piece: Piece) -> LeftBatches:
        """Keep what stays of a piece; pieces come in order, from the log's start on.

        Raises `MalformedBatch` if a batch is damaged.
        """
        batches = piece.batches
        offsets = batches[:, stored.BASE_OFFSET]
        unchecked = (offsets < self._first_dirty) | (offsets >= self._learned_end)
        piece.verify(np.flatnonzero(unchecked).tolist())
        self._judge(batches, self._in_transaction, self.end)
        clean = int(np.searchsorted(offsets, self._first_dirty))
        target, left = self._room(piece)
        rows = used = 0
        for part, is_clean in ((batches[:clean], True), (batches[clean:], False)):
            if not len(part):
                continue
            superseded, number = self._superseded, self._filtered
            if is_clean:
                superseded, number = self._lookup(piece, part), 0
            found, index, problem = filtering.keep_records(
                piece.stored,
                piece.expanded,
                part,
                superseded,
                number,
                self.end,
                self._now_ms,
                self._horizon_ms,
                self._aside,
                target[used:],
                left[rows:],
                self._totals,
            )
            if problem:
                row = index if is_clean else clean + index
                raise piece.fault(row, RECORD_PROBLEMS[problem])
            left[rows : rows + found, filtering.START : filtering.STOP + 1] += used
            rows += found
            used = int(left[rows - 1, filtering.STOP]) if rows else 0
            if not is_clean:
                self._filtered += int(part[:, stored.RECORD_COUNT].sum())
        return self._finish(piece, left[:rows])

    def _judge(self, batches: Int64s, in_transaction: set[int], end: int) -> None:
        flags = TRANSACTIONAL | CONTROL
        involved = batches[batches[:, stored.ATTRIBUTES] & flags != 0, stored.PRODUCER_ID]
        ids = np.unique(involved)
        known = ids.tolist()
        has_records = np.array([each in in_transaction for each in known], np.uint8)
        stored.judge(batches, end, self._now_ms, self._aborted, self._producers, ids, has_records)
        in_transaction.difference_update(known)
        in_transaction.update(ids[has_records != 0].tolist())

    def _make_room(self, batches: Int64s) -> None:
        """Have a bit for every record of these batches, as far as memory allows."""
        wanted = (self._learned + int(batches[:, stored.RECORD_COUNT].sum()) + 7) // 8
        size = len(self._superseded)
        if wanted > size and size < self._memory:
            larger = np.zeros(min(max(2 * size, wanted), self._memory), np.uint8)
            larger[:size] = self._superseded
            self._superseded = larger

    def _enlarge(self, batch: Int64s) -> None:
        """Take as much memory as a single batch needs, or it would never be compacted."""
        data = int(batch[stored.DATA_END] - batch[stored.DATA_START])
        needed = data + int(batch[stored.RECORD_COUNT]) * (keys.LENGTH_SIZE + 4 * _SLOT_SIZE)
        self._memory = max(2 * self._memory, 4 * needed)
        self._table = _new_table(self._memory, self._memory)

    def _lookup(self, piece: Piece, batches: Int64s) -> Bytes:
        superseded = np.zeros(int(batches[:, stored.RECORD_COUNT].sum()) // 8 + 1, np.uint8)
        row, problem = keys.mark_superseded(
            piece.stored, piece.expanded, batches, superseded, self._table, _scratch(batches)
        )
        if problem:
            raise piece.fault(row, RECORD_PROBLEMS[problem])
        return superseded

    def _room(self, piece: Piece) -> tuple[Bytes, Int64s]:
        count = int(piece.batches[:, stored.RECORD_COUNT].sum())
        frame = (len(piece.batches) + 1) * HEADER_SIZE
        needed = piece.size + len(piece.expanded) + frame + count * filtering.MAX_GROWTH
        if needed > len(self._target):
            self._target = bytearray(needed)
            self._aside = np.empty(piece.size + len(piece.expanded), np.uint8)
        left = np.empty((len(piece.batches), filtering.LEFT_COLUMNS), np.int64)
        return np.frombuffer(self._target, np.uint8), left

    def _finish(self, piece: Piece, left: Int64s) -> LeftBatches:
        """Compress batches again that were compressed, and give all of them their checksums."""
        view = memoryview(self._target)
        kinds = left[:, filtering.KIND]
        for start in left[kinds == filtering.REBUILT, filtering.START].tolist():
            write_checksum(view, start)
        sizes = left[:, filtering.STOP] - left[:, filtering.START]
        parts: list[Readable] = []
        done = 0
        for row in np.flatnonzero(kinds == filtering.TO_COMPRESS).tolist():
            start, stop = left[row, [filtering.START, filtering.STOP]].tolist()
            batch = _compressed(view[start:stop])
            sizes[row] = len(batch)
            parts += [view[done:start], batch]
            done = stop
        end = int(left[-1, filtering.STOP]) if len(left) else 0
        parts.append(view[done:end])
        last_offset = piece.batches[-1, stored.LAST_OFFSET]
        is_left = len(left) and left[-1, filtering.NEXT_OFFSET] > last_offset
        return LeftBatches(
            parts=parts,
            sizes=sizes,
            offsets=left[:, filtering.OFFSET],
            newest=left[:, filtering.NEWEST],
            last=None if is_left else _emptied(piece),
            last_offset=int(piece.batches[-1, stored.BASE_OFFSET]),
            unchanged=len(left) == len(piece.batches) and not kinds.any(),
        )


def index_entries(
    ends: Int64s, position: int, next_entry: int, interval: int
) -> tuple[Sequence[int], int]:
    """Which of the batches that end at `ends` get an index entry, and where the next one is due."""
    chosen = np.zeros(len(ends), np.uint8)
    next_entry = filtering.choose_entries(ends, position, next_entry, interval, chosen)
    return np.flatnonzero(chosen).tolist(), next_entry


def _new_table(memory: int, dirty_bytes: int) -> keys.KeyTable:
    """A table for as many keys as fit, or as there can be."""
    most = min(memory // _BYTES_PER_KEY, max(dirty_bytes // MIN_RECORD_SIZE, 1 << 10))
    slots = 1 << (most.bit_length() - 1)
    arena = max(memory - slots * _SLOT_SIZE, slots)
    return keys.KeyTable(
        slots=np.zeros(2 * slots, np.uint64),
        arena=np.empty(arena, np.uint8),
        counts=np.zeros(keys.COUNTS, np.int64),
        seed=np.uint64(secrets.randbits(64)),
    )


def _scratch(batches: Int64s) -> keys.Scratch:
    room = int(batches[:, stored.RECORD_COUNT].max(initial=0))
    return keys.Scratch(
        np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64)
    )


def _columns(rows: Sequence[Sequence[int]], count: int) -> Sequence[Int64s]:
    table = np.array(rows, np.int64).reshape(len(rows), count)
    return [np.ascontiguousarray(table[:, column]) for column in range(count)]


def _compressed(batch: memoryview) -> bytearray:
    header = read_header(batch)
    records = compress(header.codec, batch[HEADER_SIZE:])
    result = bytearray(batch[:HEADER_SIZE])
    result[LENGTH_END - 4 : LENGTH_END] = (HEADER_SIZE - LENGTH_END + len(records)).to_bytes(4)
    result += records
    write_checksum(result)
    return result


def _emptied(piece: Piece) -> bytes:
    batch = bytearray(HEADER_SIZE)
    filtering.write_empty(piece.stored, piece.batches[-1], np.frombuffer(batch, np.uint8), 0)
    write_checksum(batch)
    return bytes(batch)
