"""Runs as chunks: written in pieces of bounded size, read back where there is room."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.streams.state.blobs import from_blob, to_blob
from headrace.streams.state.evolution import conformed
from headrace.streams.state.operator import Kept
from headrace.streams.state.record import StoredRun
from headrace.streams.state.runs import Identities, Run
from headrace.streams.state.spilling import Room
from headrace.streams.state.storage import Storage


class ChunkWriter:
    """Gives chunks their numbers, and remembers what was written."""

    def __init__(self, storage: Storage, room: Room, next_chunk: int) -> None:
        self._storage = storage
        self._room = room
        self.next_chunk = next_chunk
        self.written: list[bytes] = []

    def write(
        self, kept: Kept, parts: "Iterable[tuple[Identities, Any]]", tombstones: Identities
    ) -> tuple[StoredRun, Run]:
        """Store a run, part by part, and return it as it will be read."""
        blobs: list[bytes] = []
        chunks: list[int] = []
        identities: list[Identities] = []
        batches: list[Any] = []
        held: list[object] = []
        for each, rows in parts:
            blobs.append(to_blob(rows))
            chunks.append(self._add(blobs[-1]))
            identities.append(each)
            placed = self._room.place(blobs[-1])
            held.append(placed)
            batches += from_blob(placed.buffer).to_batches()
        number = None
        if len(tombstones):
            blobs.append(to_blob(pa.table({"key": tombstones.keys, "row": tombstones.rows})))
            number = self._add(blobs[-1])
        run = Run(kept, batches, _placed(identities, self._room, held), tombstones, held)
        size = sum(map(len, blobs))
        return StoredRun(tuple(chunks), number, len(run), len(tombstones), size), run

    def remove(self, run: StoredRun) -> None:
        """Remove what another run has taken the place of."""
        for number in run.every_chunk:
            self._storage.remove_chunk(number)

    def _add(self, blob: bytes) -> int:
        number = self.next_chunk
        self.next_chunk += 1
        self._storage.write_chunk(number, blob)
        self.written.append(blob)
        return number


def read_run(kept: Kept, stored: StoredRun, storage: Storage, room: Room) -> Run:
    """A run from its chunks, with the columns that the table has now."""
    batches: list[Any] = []
    held: list[object] = []
    for number in stored.chunks:
        placed = room.place(storage.read_chunk(number))
        held.append(placed)
        batches += conformed(from_blob(placed.buffer), kept.schema).to_batches()
    identities = _placed([Identities.of(each, kept) for each in batches], room, held)
    tombstones = Identities.none()
    if stored.tombstones is not None:
        table = from_blob(storage.read_chunk(stored.tombstones)).combine_chunks()
        tombstones = Identities(table.column("key").to_numpy(), table.column("row").to_numpy())
    return Run(kept, batches, identities, tombstones, held)


def _placed(parts: list[Identities], room: Room, held: list[object]) -> Identities:
    """The identities of a run, moved to where its rows are if there is no room for them."""
    joined = Identities.joined(parts)
    size = joined.keys.nbytes + joined.rows.nbytes
    if room.used + size <= room.limit:
        return joined
    placed = room.place(joined.keys.tobytes() + joined.rows.tobytes())
    held.append(placed)
    both = np.frombuffer(placed.buffer, np.uint64)
    return Identities(both[: len(joined)], both[len(joined) :])
