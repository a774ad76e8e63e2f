"""The header of values that name their schema: a zero byte, the schema's id, and the payload."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.records.kernels.compiled import Int64s, read_only
from headrace.streams.formats.decoding import Reasons

HEADER_BYTES: Final = 5
UNFRAMED: Final = -1
"""The id of a value without such a header."""

_BEYOND: Final = 1 << 31

NO_HEADER: Final = (
    "no schema id: the value does not begin with a zero byte and an id, "
    "as producers with a schema registry write it"
)


class Framed(NamedTuple):
    """The schema id of each value; `UNFRAMED` for those that have none, and for nulls."""

    ids: Int64s

    def rows(self) -> "dict[int, Int64s]":
        """Which records have which schema."""
        return {
            int(number): np.flatnonzero(self.ids == number)
            for number in np.unique(self.ids)
            if number != UNFRAMED
        }


def read_headers(value: pa.BinaryArray, reasons: Reasons) -> Framed:
    """The ids of all values; those without a header are rejected."""
    _, bounds, data = value.buffers()
    places = read_only(bounds, np.int32)[value.offset : value.offset + len(value) + 1]
    starts = places[:-1].astype(np.int64)
    framed = np.diff(places) >= HEADER_BYTES
    memory = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    framed[framed] = memory[starts[framed]] == 0
    present = value.is_valid().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(present & ~framed).tolist():
        reasons[row] = NO_HEADER
    framed &= present
    ids = np.full(len(value), UNFRAMED, np.int64)
    number = np.zeros(int(framed.sum()), np.int64)
    for byte in range(1, HEADER_BYTES):
        number = number * 256 + memory[starts[framed] + byte]
    ids[framed] = number
    return Framed(ids)


def payloads(value: pa.BinaryArray, rows: Int64s) -> pa.BinaryArray:
    """What follows the headers of these values."""
    # Without an end, Arrow computes the room for it wrongly.
    return pc.binary_slice(value.take(pa.array(rows)), HEADER_BYTES, _BEYOND)
