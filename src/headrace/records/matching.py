"""Which records are meant: marks on those that have one of several keys or headers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.records.columns import decode_columns
from headrace.records.decode import Chunk, chunks, describe
from headrace.records.errors import InvalidBatch
from headrace.records.header import Readable
from headrace.records.kernels import batches as table
from headrace.records.kernels import matching as kernels
from headrace.records.kernels.compiled import Bytes, Int64s, read_only
from headrace.records.kernels.records import RECORD_PROBLEMS
from headrace.records.schema import record_schema

CHUNK_BYTES: Final = 8 << 20
"""Bytes of records that are looked at together, roughly."""

MAX_EXPANDED: Final = 1 << 30
"""What one compressed batch may expand to; far more than any producer's does."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """Records with one of the keys, or with one of the headers."""

    keys: kernels.Needles
    headers: kernels.HeaderNeedles

    @classmethod
    def of(cls, keys: Iterable[bytes] = (), headers: Iterable[tuple[bytes, bytes]] = ()) -> Self:
        """Keys match as a whole, headers by name and value; a null is never meant."""
        pairs = list(headers)
        names, values = ([pair[side] for pair in pairs] for side in (0, 1))
        return cls(
            needles(sorted(set(keys))), kernels.HeaderNeedles(needles(names), needles(values))
        )


class Marked(NamedTuple):
    """Some batches, and which of their records are meant."""

    chunk: Chunk
    marks: Bytes
    """One for every record of the batches: 1 if it is meant."""

    counts: Int64s
    """For every batch, how many are."""

    def rows(self, stored: Bytes) -> pa.RecordBatch:
        """The records that are meant, with offset, timestamp, key and value."""
        touched = self.counts > 0
        of_touched = np.repeat(touched, self.chunk.batches[:, table.RECORD_COUNT])
        decoded = decode_columns(
            stored,
            self.chunk.expanded,
            self.chunk.batches[touched],
            0,
            keys=True,
            headers=False,
        )
        return decoded.filter(pa.array(self.marks[of_touched].astype(bool)))


def mark(view: memoryview, criteria: Criteria) -> Iterator[Marked]:
    """Look at every record of the batches in a buffer; transaction markers are left out.

    Raises `MalformedBatch` or `DecompressionLimit` where a batch cannot be read: nobody can tell
    then whether it holds a record that is meant.
    """
    stored = read_only(view, np.uint8)
    batches = describe(view, 0, False, "raise")
    for chunk in chunks(view, batches, CHUNK_BYTES, MAX_EXPANDED, verify_crc=True):
        marks = np.zeros(int(chunk.batches[:, table.RECORD_COUNT].sum()), np.uint8)
        counts = np.zeros(len(chunk.batches), np.int64)
        index, problem = kernels.mark_records(
            stored, chunk.expanded, chunk.batches, criteria.keys, criteria.headers, marks, counts
        )
        if problem:
            batch = chunk.batches[index]
            raise InvalidBatch(
                RECORD_PROBLEMS[problem], int(batch[table.POSITION]), int(batch[table.BASE_OFFSET])
            )
        yield Marked(chunk, marks, counts)


class Found(NamedTuple):
    """What a search found."""

    records: int
    """How many records were looked at."""

    rows: pa.Table
    """Offset, timestamp, key and value of those that are meant."""


def find(buffer: Readable, criteria: Criteria) -> Found:
    """Find the records that are meant in the batches that `buffer` consists of.

    Raises what `mark` raises.
    """
    view = memoryview(buffer).cast("B")
    stored = read_only(view, np.uint8)
    records = 0
    rows = []
    for marked in mark(view, criteria):
        records += len(marked.marks)
        if marked.counts.any():
            rows.append(marked.rows(stored))
    return Found(records, pa.Table.from_batches(rows, record_schema(keys=True, headers=False)))


def content_size(rows: pa.Table) -> int:
    """Bytes of the keys and values of records that were found."""
    columns = (pc.binary_length(rows[name]) for name in ("key", "value"))
    return sum(pc.sum(lengths).as_py() or 0 for lengths in columns)


def needles(strings: Sequence[bytes]) -> kernels.Needles:
    """Byte strings in the form in which kernels look them up."""
    lengths = np.fromiter(map(len, strings), np.int64, len(strings))
    slots = np.zeros(1 << max(2 * len(strings), 1).bit_length(), np.int64)
    made = kernels.Needles(np.cumsum(lengths), read_only(b"".join(strings), np.uint8), slots)
    kernels.fill_slots(made)
    return made
