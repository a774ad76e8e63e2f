"""A driver that copies a topic and tells what it does, so that it can be killed meanwhile."""

import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from headrace.settings import KafkaSettings, StreamsSettings
from headrace.streams.session import spark_session
from headrace.streams.sinks.applying import foreach_batch, written
from headrace.streams.sinks.contract import Batch, Place, Written
from headrace.streams.sinks.topic import Delivery, TopicSink
from headrace.streams.source import register

READING = "reading"
"""A task has the first of its rows."""
WRITING = "writing"
"""A task has sent some of its rows."""
COMMITTED = "committed"
"""A task's rows are in the output."""
APPLIED = "applied"
"""The rows of all tasks are in the output, and Spark is about to note that."""

ROWS_PER_BATCH = 300
NAME = "killed"
"""What the query is called."""


@dataclass(frozen=True)
class Watched:
    """A sink that tells a socket what it does."""

    sink: TopicSink
    address: str

    def begin(self, batch: Batch) -> None:
        self.sink.begin(batch)

    def write(self, place: Place, rows: Iterator[pa.RecordBatch]) -> Written:
        written = self.sink.write(place, self._watched(rows))
        self.tell(COMMITTED)
        return written

    def tell(self, moment: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.sendto(moment.encode(), self.address)

    def _watched(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, piece in enumerate(rows):
            yield piece
            if number < 2:
                self.tell((READING, WRITING)[number])


def main(
    master: str,
    bootstrap: str,
    source: str,
    target: str,
    delivery: str,
    checkpoint: str,
    address: str,
    how: str,
) -> None:
    """Copy in steady batches until killed or, to "finish", all that is left."""
    # Several pieces for each task, and two of a cluster's cores.
    properties = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
        "spark.cores.max": "2",
    }
    settings = StreamsSettings(master=master, partitions=2, properties=properties)
    spark = spark_session(settings, name="killed")
    register(spark)
    kafka = KafkaSettings(bootstrap=bootstrap)
    sink = TopicSink(kafka, target, Delivery(delivery), partitions=4, chunk_bytes=1)
    watched = Watched(sink, address)
    reader = spark.readStream.format("headrace").options(bootstrap=bootstrap, topics=source)
    if how != "finish":
        reader = reader.option("max_records_per_batch", str(ROWS_PER_BATCH))
    writer = (
        written(reader.load().select("key", "value"), watched)
        .writeStream.foreachBatch(
            foreach_batch(watched, NAME, lambda applied: watched.tell(APPLIED))
        )
        .option("checkpointLocation", checkpoint)
    )
    if how == "finish":
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
