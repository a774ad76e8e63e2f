"""Whole columns of records into topics: no loop over records on the way.

Rows are gathered until there are enough, shared out over topics and partitions, encoded by the
compiled side of `records` and sent while the next ones are gathered. Memory holds two such chunks,
however many rows there are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from headrace.clock import Clock
from headrace.kafka.connection import Connection
from headrace.kafka.positions import Partition
from headrace.kafka.raw_produce import BatchSender, OutgoingBatch, RecordTooLarge
from headrace.kafka.raw_transactions import Transaction
from headrace.kafka.topic_shapes import TopicShape
from headrace.records.codecs import Codec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from headrace.records.arrow import Producer, Sources

CHUNK_BYTES: Final = 8 << 20
"""How many bytes of rows are encoded and sent together, unless told otherwise."""

TOPIC_COLUMN: Final = "topic"
"""The column that may name a topic for each row."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where records go, and in which form."""

    topic: str
    """The topic of rows that name none."""

    shape: Callable[[str], TopicShape]
    """Tells how many partitions a topic has; may create it."""

    codec: Codec = Codec.NONE
    chunk_bytes: int = CHUNK_BYTES


class ColumnWriter:
    """Writes rows for one producer; close it after use, and `flush` it before that.

    Rows have the columns of `records.arrow.encode`, and `topic` if they go to several. The same key
    goes to the same partition as with Kafka's own clients; rows without a key go to one partition
    per chunk, and `turn` says to which one first.
    """

    def __init__(
        self,
        connection: Connection,
        output: Output,
        producer: "Producer",
        *,
        clock: Clock,
        transaction: Transaction | None = None,
        turn: int = 0,
    ) -> None:
        self.records = 0
        self.bytes = 0
        self._output = output
        self._producer = producer
        self._clock = clock
        self._transaction = transaction
        self._turn = turn
        self._sender = BatchSender(connection, transaction)
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._sequences: dict[Partition, int] = {}

    def write(self, rows: "pa.RecordBatch") -> None:
        """Take rows; what was wrong with earlier ones may be raised now, as by `BatchSender`.

        Raises:
            RecordTooLarge: A record is larger than its topic accepts.
            InvalidRecords: The columns are not those of records.
        """
        self._gathered.append(rows)
        self._gathered_bytes += rows.nbytes
        if self._gathered_bytes >= self._output.chunk_bytes:
            self._send()

    def flush(self) -> None:
        """Wait until all rows have arrived."""
        self._send()
        self._sender.flush()

    def close(self) -> None:
        """Give up what has not arrived."""
        self._sender.close()

    def _send(self) -> None:
        import pyarrow as pa

        if not self._gathered:
            return
        chunk = pa.Table.from_batches(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        lanes = [
            self._encode(Partition(topic, number), selected, rows[chosen], shape)
            for topic, records, rows, shape in self._by_topic(chunk)
            for number, selected, chosen in self._by_partition(records, shape)
        ]
        # A request has room for one batch of each partition.
        for each in zip_longest(*lanes):
            batches = [batch for batch in each if batch is not None]
            if self._transaction is not None:
                self._transaction.add([batch.partition for batch in batches])
            self._sender.send(batches)
            self.bytes += sum(len(batch.data) for batch in batches)
        self.records += chunk.num_rows
        self._turn += 1

    def _by_topic(
        self, chunk: "pa.Table"
    ) -> "Iterator[tuple[str, Sources, npt.NDArray[np.int64], TopicShape]]":
        import numpy as np

        from headrace.records.arrow import rows_by_group, sources

        if TOPIC_COLUMN not in chunk.schema.names:
            topic = self._output.topic
            records = sources(chunk, self._clock.now_ms())
            yield topic, records, np.arange(len(records)), self._output.shape(topic)
            return
        records = sources(chunk.drop_columns([TOPIC_COLUMN]), self._clock.now_ms())
        named = chunk.column(TOPIC_COLUMN).fill_null(self._output.topic)
        encoded = named.combine_chunks().dictionary_encode()
        topics: list[str] = encoded.dictionary.to_pylist()
        for group, rows in rows_by_group(encoded.indices.to_numpy(), len(topics)):
            topic = topics[group]
            yield topic, records.select(rows), rows, self._output.shape(topic)

    def _by_partition(
        self, records: "Sources", shape: TopicShape
    ) -> "Iterator[tuple[int, Sources, npt.NDArray[np.int64]]]":
        from headrace.records.arrow import partitions_by_key, rows_by_group

        keyless = self._turn % shape.partitions
        chosen = partitions_by_key(records, shape.partitions, keyless=keyless)
        for number, rows in rows_by_group(chosen, shape.partitions):
            yield number, records.select(rows), rows

    def _encode(
        self,
        partition: Partition,
        records: "Sources",
        rows: "npt.NDArray[np.int64]",
        shape: TopicShape,
    ) -> Iterator[OutgoingBatch]:
        from headrace.records.arrow import MAX_BATCH_BYTES, encode_for_producer

        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(records)
        batches = encode_for_producer(
            records,
            self._producer,
            sequence=sequence,
            transactional=self._transaction is not None,
            codec=self._output.codec,
            max_bytes=min(MAX_BATCH_BYTES, shape.max_message_bytes),
        )
        for batch in batches:
            origin = self.records + rows[batch.first_row : batch.first_row + batch.records]
            if len(batch.data) > shape.max_message_bytes:
                size, limit = len(batch.data), shape.max_message_bytes
                raise RecordTooLarge(partition.topic, int(origin[0]), size, limit)
            yield OutgoingBatch(partition, batch.data, origin)
