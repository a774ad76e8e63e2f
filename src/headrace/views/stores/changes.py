"""Rows in the form in which stores take them: what becomes of each key, and of each only once.

Rows with a key may have the column `_deleted`, as those of a table do. Of several with the same
key the last one counts; then deletions and the others have no key in common, and a store may apply
them in whatever order it likes. Without a key that is a column like any other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DELETED: Final = "_deleted"
"""The column that tells that the row of a key is gone."""

ROW: Final = "_row"
"""The column that numbers the rows of a write, as they came."""

CHUNK_ROWS: Final = 50_000
CHUNK_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows to write and some keys to delete; both have the column `_row`."""

    upserts: pa.Table
    deletes: pa.Table

    @property
    def rows(self) -> int:
        """How many there are of both."""
        return int(self.upserts.num_rows + self.deletes.num_rows)

    def halves(self) -> "tuple[Chunk, Chunk]":
        """The same as two chunks, of a half each."""
        middle = self.rows // 2
        deleted = min(middle, self.deletes.num_rows)
        written = middle - deleted
        return (
            Chunk(self.upserts.slice(0, written), self.deletes.slice(0, deleted)),
            Chunk(self.upserts.slice(written), self.deletes.slice(deleted)),
        )

    @property
    def number(self) -> int:
        """The number of its first row."""
        rows = self.upserts if self.upserts.num_rows else self.deletes
        return int(rows.column(ROW)[0].as_py())


def chunks_of(
    batches: Iterable[pa.RecordBatch],
    key: Sequence[str],
    *,
    rows: int = CHUNK_ROWS,
    size: int = CHUNK_BYTES,
) -> Iterator[Chunk]:
    """Rows, in order, as chunks of about as many rows and bytes at most; rows are numbered."""
    gathered: list[pa.Table] = []
    count = weight = number = 0
    for batch in batches:
        table = pa.Table.from_batches([batch])
        numbers = pa.array(np.arange(number, number + batch.num_rows))
        number += batch.num_rows
        gathered.append(table.append_column(ROW, numbers))
        count += batch.num_rows
        weight += batch.nbytes
        if count >= rows or weight >= size:
            yield _chunk(pa.concat_tables(gathered), key)
            gathered, count, weight = [], 0, 0
    if count:
        yield _chunk(pa.concat_tables(gathered), key)


def joined(chunks: Iterable[Chunk], key: Sequence[str]) -> list[Chunk]:
    """All rows as one chunk, in which each key is there once; no chunk if there are no rows."""
    found = list(chunks)
    if len(found) < 2:
        return found
    upserts = pa.concat_tables([each.upserts for each in found])
    if not key:
        return [Chunk(upserts, found[0].deletes)]
    deletes = pa.concat_tables([each.deletes for each in found])
    parts = [
        part.append_column(DELETED, pa.repeat(deleted, part.num_rows))
        for part, deleted in ((upserts, False), (deletes, True))
    ]
    return [_chunk(pa.concat_tables(parts, promote_options="default").sort_by(ROW), key)]


def keyless(batch: pa.RecordBatch, key: Sequence[str]) -> dict[int, str]:
    """The rows that have no value in a column of the key, and which column that is."""
    found: dict[int, str] = {}
    for name in key:
        column = batch.column(name)
        if column.null_count:
            for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                found.setdefault(row, name)
    return found


def last_of_each(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Of rows in the order of their numbers, the last one of each key."""
    last = rows.select([*key, ROW]).group_by(list(key)).aggregate([(ROW, "max")])
    if last.num_rows == rows.num_rows:
        return rows
    numbers = np.sort(last.column(f"{ROW}_max").to_numpy())
    places = np.searchsorted(rows.column(ROW).to_numpy(), numbers)
    return rows.take(pa.array(places))


def _chunk(rows: pa.Table, key: Sequence[str]) -> Chunk:
    if not key:
        return Chunk(rows, rows.slice(0, 0).select([ROW]))
    rows = last_of_each(_with_key(rows, key), key)
    if DELETED not in rows.column_names:
        return Chunk(rows, rows.slice(0, 0).select([*key, ROW]))
    gone = pc.fill_null(rows.column(DELETED), False)
    rows = rows.drop_columns(DELETED)
    return Chunk(rows.filter(pc.invert(gone)), rows.filter(gone).select([*key, ROW]))


def _with_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Rows without those that have no value in a column of the key, which no store can take."""
    for name in key:
        if rows.column(name).null_count:
            rows = rows.filter(rows.column(name).is_valid())
    return rows
