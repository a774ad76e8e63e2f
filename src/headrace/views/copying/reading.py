"""The records of a partition as rows for a store, in pieces that remember where they come from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.kafka.connection import Connection
from headrace.kafka.positions import Partition
from headrace.kafka.raw_fetch import fetch_range
from headrace.records.arrow import decode_batches
from headrace.settings import SinkSettings
from headrace.streams.formats import row_schema
from headrace.streams.formats.dead_letters import dead_letters
from headrace.streams.formats.decoding import Decoder, Rejected
from headrace.streams.formats.formats import decoder
from headrace.streams.formats.keyed import KeyedDecoder
from headrace.views.stores.changes import DELETED
from headrace.views.stores.contract import Refusal, Shape

_ABOUT_CHANGES = ("_op", "_ts")
"""What changes of Debezium's tell besides the row; a table is of its rows."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one partition that follow each other, and what became of them."""

    records: pa.RecordBatch
    rows: pa.RecordBatch
    places: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    """The record of each row."""

    rejected: Sequence[Rejected]

    @property
    def end(self) -> int:
        """The offset behind its last record."""
        return int(self.records.column("offset")[-1].as_py()) + 1

    @property
    def last_ms(self) -> int:
        """The time of its last record."""
        return int(self.records.column("timestamp")[-1].value)


class RowReader:
    """Makes rows of a topic's records, as the settings of a sink say."""

    def __init__(self, settings: SinkSettings) -> None:
        options = dict(settings.options)
        if settings.key and settings.format == "debezium":
            options.setdefault("unwrap", "true")
        schema = row_schema(settings.format, settings.schema, options, [settings.source])
        self._decoder: Decoder = (
            KeyedDecoder(settings.format, schema, options, settings.key)
            if settings.key
            else decoder(settings.format, schema, options)
        )
        self._rows = settings.batch
        left_out = (*_ABOUT_CHANGES, DELETED) if settings.key else (DELETED,)
        columns = [each for each in self._decoder.schema if each.name not in left_out]
        self.shape = Shape(settings.kept_in, pa.schema(columns), settings.key)
        """The table that the rows are of."""
        self._names = [*self.shape.columns.names, *([DELETED] if settings.key else [])]

    def pieces(
        self, connection: Connection, partition: Partition, start: int, end: int
    ) -> Iterator[Piece]:
        """The records from one offset up to, not including, another, so many at most in each piece.

        Raises OffsetsGone.
        """
        for chunk in fetch_range(connection, partition, start, end):
            for records in decode_batches(chunk, min_offset=start):
                offsets = records.column("offset").to_numpy()
                wanted = records.slice(0, int(offsets.searchsorted(end)))
                for first in range(0, wanted.num_rows, self._rows):
                    yield self._piece(wanted.slice(first, self._rows))

    def _piece(self, records: pa.RecordBatch) -> Piece:
        decoded = self._decoder.decode(records)
        accepted = decoded.accepted
        places = np.arange(records.num_rows) if accepted is None else accepted.to_numpy()
        return Piece(records, decoded.rows.select(self._names), places, decoded.rejected)


def letters_of(
    pieces: Sequence[Piece], refused: Sequence[Refusal], partition: Partition
) -> list[pa.RecordBatch]:
    """Records that did not parse and records whose rows were refused, as dead letters."""
    found, first = [], 0
    for piece in pieces:
        count = piece.rows.num_rows
        ours = [each for each in refused if first <= each.row < first + count]
        rejected = [
            *piece.rejected,
            *(Rejected(int(piece.places[each.row - first]), each.reason) for each in ours),
        ]
        first += count
        if rejected:
            topic, number = partition
            found.append(dead_letters(piece.records, sorted(rejected), topic, number))
    return found
