"""Rows gathered before a store is asked for anything.

They come from a computation that may take long or fail. A store that waited for them in the middle
of a transaction would keep everybody else waiting too, so they are all there before it begins: in
memory, and in a file if they are many.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa

from headrace.views.stores.changes import Chunk, chunks_of, keyless
from headrace.views.stores.contract import Refusal

MEMORY_BYTES: Final = 64 << 20
"""How many bytes of rows are kept in memory; the rest is in a file."""


class Staged:
    """All rows of a write, which can be read again and again."""

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        key: tuple[str, ...],
        *,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._key = key
        self._held: list[pa.RecordBatch] = []
        self._resources = ExitStack()
        self._sealed = ExitStack()
        self._path = ""
        self._writer: pa.RecordBatchFileWriter | None = None
        self.rows = 0
        self.bytes = 0
        self.keyless: list[Refusal] = []
        """The rows that no store can take, since they say nothing of which key they are."""
        try:
            for batch in batches:
                if batch.num_rows:
                    self._add(batch, memory_bytes)
        except BaseException:
            self._sealed.close()
            self._resources.close()
            raise
        self._sealed.close()

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the rows; None if there are none."""
        return self._held[0].schema if self._held else None

    def chunks(self) -> Iterator[Chunk]:
        """What stores are given: all rows but those without a key."""
        return chunks_of(self._batches(), self._key)

    def taken(self, numbers: list[int]) -> pa.Table:
        """Some of the rows, by their numbers."""
        assert self.schema is not None
        wanted = np.array(sorted(numbers), np.int64)
        found, first = [], 0
        for batch in self._batches():
            within = wanted[(wanted >= first) & (wanted < first + batch.num_rows)] - first
            if len(within):
                found.append(batch.take(pa.array(within)))
            first += batch.num_rows
        return pa.Table.from_batches(found, self.schema)

    def _add(self, batch: pa.RecordBatch, memory_bytes: int) -> None:
        for row, name in keyless(batch, self._key).items():
            reason = f"{name} is null, and it is a part of the key"
            self.keyless.append(Refusal(self.rows + row, reason))
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        if self._writer is None and (self.bytes <= memory_bytes or not self._held):
            self._held.append(batch)
            return
        if self._writer is None:
            directory = self._resources.enter_context(tempfile.TemporaryDirectory("-headrace"))
            self._path = f"{directory}/rows"
            file = self._sealed.enter_context(pa.OSFile(self._path, "wb"))
            self._writer = self._sealed.enter_context(pa.ipc.new_file(file, batch.schema))
        self._writer.write_batch(batch)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._held
        if self._path:
            with pa.memory_map(self._path) as file:
                reader = pa.ipc.open_file(file)
                for index in range(reader.num_record_batches):
                    yield reader.get_batch(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._resources.close()
