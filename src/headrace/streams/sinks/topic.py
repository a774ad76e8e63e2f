"""Rows into topics, exactly once: a transaction per place, and the batch's number its offset."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from headrace.clock import SystemClock
from headrace.kafka.cluster import Cluster
from headrace.kafka.column_writer import CHUNK_BYTES, ColumnWriter, Output
from headrace.kafka.connection import Connection, connect
from headrace.kafka.errors import UnknownTopic
from headrace.kafka.positions import Partition
from headrace.kafka.raw_offsets import StoredOffset, read_offset, store_offset
from headrace.kafka.raw_transactions import (
    OffsetInTransaction,
    ProducerFenced,
    Transaction,
    new_producer,
)
from headrace.kafka.topic_shapes import TopicShape, topic_shape
from headrace.kafka.topics import ensure_topic
from headrace.records.codecs import Codec
from headrace.settings import KafkaSettings
from headrace.streams.sinks.contract import (
    Batch,
    Fenced,
    Outcome,
    Overtaken,
    PartitionsChanged,
    Place,
    Written,
)

if TYPE_CHECKING:
    import pyarrow as pa

PROGRESS: Final = Partition("__headrace_sinks", 0)
"""What the groups of sinks have their offsets in: a topic that stays empty.

On the output's own topic, tools that watch lag would take the number of a batch for a position.
"""

SINK_GROUPS: Final = "__headrace_sink."
"""What the names of those groups begin with; like topics, groups with two underscores are nobody's.
"""


class Delivery(StrEnum):
    """What becomes of rows that are written, when their batch comes again."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    """They are written again; no transaction, so readers see rows as they arrive."""


@dataclass(frozen=True, slots=True)
class TopicSink:
    """Writes the columns `key`, `value`, `headers`, `timestamp` and `topic` of rows to topics.

    Only `value` must be there. Keys and values are bytes or text; headers a list of structs of
    `key` and `value`, or a map; a row without a timestamp gets the time of writing, and one without
    a topic goes to `topic`. Topics that do not exist are created.

    Exactly once means to readers with `isolation.level=read_committed`: each place of a batch
    appears to them as a whole, once.
    """

    kafka: KafkaSettings
    topic: str
    delivery: Delivery = Delivery.EXACTLY_ONCE
    codec: Codec = Codec.NONE
    partitions: int | None = None
    """How many partitions a topic is created with; None leaves it to the cluster."""

    compacted: bool = False
    """Whether a topic is created as one that keeps the last record of each key."""

    chunk_bytes: int = CHUNK_BYTES
    """How many bytes of rows are gathered before they are sent."""

    transaction_timeout: timedelta = timedelta(minutes=10)
    """How long the broker waits for a place to be written before it undoes what is there.

    Also how long readers may have to wait behind an attempt that died, if no other follows.
    """

    def begin(self, batch: Batch) -> None:
        """Create the topic if it is missing, and note how many partitions the batch has."""
        connection = connect(self.kafka)
        self._shape(connection, self.topic)
        if self.delivery is Delivery.AT_LEAST_ONCE:
            return
        self._ensure_progress(connection)
        group = group_of(batch.query)
        before = read_offset(connection, group, PROGRESS)
        if before is not None and before.offset > batch.id:
            raise Overtaken(batch.query, batch.id)
        if before is not None and before.offset == batch.id:
            _require_same_partitions(batch.query, batch.id, batch.partitions, before)
        else:
            store_offset(connection, group, PROGRESS, _stored(batch.id, batch.partitions))

    def write(self, place: Place, rows: "Iterator[pa.RecordBatch]") -> Written:
        """Write the rows of a place in a transaction of its own."""
        first = next((each for each in rows if each.num_rows), None)
        if first is None:
            return Written(Outcome.WRITTEN)
        rows = chain((first,), rows)
        connection = connect(self.kafka)
        if self.delivery is Delivery.AT_LEAST_ONCE:
            return self._write_all(connection, place, new_producer(connection), None, rows)
        try:
            return self._write_once(connection, place, rows)
        except ProducerFenced as error:
            raise Fenced(
                f"Batch {place.batch_id} of {place.query}, partition {place.partition}: {error}"
            ) from error

    def _write_once(
        self, connection: Connection, place: Place, rows: "Iterator[pa.RecordBatch]"
    ) -> Written:
        name = group_of(place.query, place.partition)
        transaction = Transaction.open(connection, name, self.transaction_timeout)
        # Whoever held the id before is fenced by now, so this cannot change under us.
        before = read_offset(connection, name, PROGRESS)
        if before is not None and before.offset > place.batch_id:
            return Written(Outcome.OVERTAKEN)
        if before is not None and before.offset == place.batch_id:
            _require_same_partitions(place.query, place.batch_id, place.partitions, before)
            return Written(Outcome.REPEATED)
        try:
            identity = transaction.identity
            written = self._write_all(connection, place, identity, transaction, rows)
            stored = _stored(place.batch_id, place.partitions)
            transaction.commit(OffsetInTransaction(name, PROGRESS, stored))
        except BaseException:
            transaction.abort()
            raise
        return written

    def _write_all(
        self,
        connection: Connection,
        place: Place,
        identity: tuple[int, int],
        transaction: Transaction | None,
        rows: "Iterator[pa.RecordBatch]",
    ) -> Written:
        from headrace.records.arrow import Producer

        shape = partial(self._shape, connection)
        writer = ColumnWriter(
            connection,
            Output(self.topic, shape, self.codec, self.chunk_bytes),
            Producer(*identity),
            clock=SystemClock(),
            transaction=transaction,
            turn=place.batch_id + place.partition,
        )
        with closing(writer):
            for each in rows:
                writer.write(each)
            writer.flush()
        return Written(Outcome.WRITTEN, writer.records, writer.bytes)

    def _shape(self, connection: Connection, topic: str) -> TopicShape:
        try:
            return topic_shape(connection, topic)
        except UnknownTopic:
            config = {"cleanup.policy": "compact"} if self.compacted else {}
            ensure_topic(Cluster(self.kafka), topic, partitions=self.partitions, config=config)
            return topic_shape(connection, topic)

    def _ensure_progress(self, connection: Connection) -> None:
        try:
            topic_shape(connection, PROGRESS.topic)
        except UnknownTopic:
            ensure_topic(Cluster(self.kafka), PROGRESS.topic, partitions=1)


def group_of(query: str, partition: int | None = None) -> str:
    """The group, and the transactional id, of a place; without a partition, of whole batches.

    >>> group_of("shop.receipts.1f0c", 3)
    '__headrace_sink.shop.receipts.1f0c.3'
    """
    place = "" if partition is None else f".{partition}"
    return f"{SINK_GROUPS}{query}{place}"


def _stored(batch_id: int, partitions: int) -> StoredOffset:
    return StoredOffset(batch_id, f"partitions={partitions}")


def _require_same_partitions(
    query: str, batch_id: int, partitions: int, before: StoredOffset
) -> None:
    stored = int(before.metadata.removeprefix("partitions="))
    if stored != partitions:
        raise PartitionsChanged(query, batch_id, stored, partitions)
