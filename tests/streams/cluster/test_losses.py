"""Parts of a Spark cluster that are lost in the middle of a batch: the output is exact.

These need a cluster that the test may hurt: `pytest --spark standalone`.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest
from confluent_kafka import Producer

from headrace.settings import KafkaSettings
from headrace.streams.sinks.applying import foreach_batch, written
from headrace.streams.sinks.topic import TopicSink
from headrace.streams.source import register
from tests.clusters import Cluster
from tests.conftest import TopicFactory
from tests.streams.cluster.standalone import StandaloneSpark
from tests.streams.patience import catch_up
from tests.streams.sinks.copying_driver import WRITING, Watched
from tests.streams.sinks.topic_target import values_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
COUNT = 20_000
PER_BATCH = 5_000
TIMES = 2

_PIECE = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture
def told(tmp_path: Path) -> Iterator[socket.socket]:
    """Where tasks tell what they do."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "told"))
        yield listening


@pytest.fixture
def in_pieces(spark: "SparkSession") -> Iterator[None]:
    """Tasks get their rows in many pieces."""
    spark.conf.set(_PIECE, "100")
    yield
    spark.conf.unset(_PIECE)


def lose_an_executor(standalone: StandaloneSpark) -> None:
    assert standalone.kill_executors() > 0


def lose_the_worker(standalone: StandaloneSpark) -> None:
    standalone.kill_worker()
    standalone.start_worker()


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("lose", [lose_an_executor, lose_the_worker])
def test_what_is_killed_while_it_writes_costs_no_row_and_doubles_none(
    spark: "SparkSession",
    standalone: StandaloneSpark,
    cluster: Cluster,
    new_topic: TopicFactory,
    tmp_path: Path,
    told: socket.socket,
    lose: Callable[[StandaloneSpark], None],
):
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for number in range(COUNT):
        producer.produce(source, str(number), partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(30) == 0
    register(spark)
    kafka = KafkaSettings(bootstrap=cluster.bootstrap)
    sink = Watched(
        TopicSink(kafka, target, partitions=PARTITIONS, chunk_bytes=1), told.getsockname()
    )
    reader = spark.readStream.format("headrace").options(
        bootstrap=cluster.bootstrap, topics=source, max_records_per_batch=str(PER_BATCH)
    )
    applied: list[int] = []
    writer = written(reader.load(), sink).writeStream.foreachBatch(
        foreach_batch(sink, "lost", lambda each: applied.append(each.batch.id))
    )
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with Losses(told, lambda: lose(standalone)) as losses:
        catch_up(writer)
    assert losses.count == TIMES, "nothing was lost before the query had ended"
    assert applied == list(range(COUNT // PER_BATCH))
    found = sorted(int(value) for value in values_in(cluster.bootstrap, target))
    assert found == list(range(COUNT))


class Losses:
    """Loses a part when a task has sent some of its rows and not all, twice."""

    def __init__(self, told: socket.socket, lose: Callable[[], None]) -> None:
        self._told = told
        self._lose = lose
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()

    def _listen(self) -> None:
        # To the end: tasks that nobody listens to would wait.
        self._told.settimeout(0.2)
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                if self._told.recv(100).decode() == WRITING and self.count < TIMES:
                    self._lose()
                    self.count += 1
                    self._forget()

    def _forget(self) -> None:
        """What was told before says nothing about the tasks that run now."""
        with contextlib.suppress(TimeoutError):
            while self._told.recv(100):
                pass
