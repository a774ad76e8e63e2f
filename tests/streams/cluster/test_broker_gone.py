"""A broker that goes and comes back under a running flow: nothing is lost, and nothing doubled."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from headrace.streams import Flow
from headrace.streams.running import FlowRun
from headrace.testing.apache_kafka import ApacheKafka
from tests.clusters import APACHE_KAFKA, HEADRACE, headrace_process
from tests.streams.running.test_running import ORDER, wait_until
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Mortal(Protocol):
    """A broker that can be killed, and started again on the same port and data."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


@contextlib.contextmanager
def broker_of_its_own(kind: str) -> Iterator[tuple[Mortal, Topics]]:
    if kind == HEADRACE:
        with headrace_process() as broker:
            yield broker, Topics(broker.cluster.bootstrap)
        return
    if reason := ApacheKafka.unavailable():
        pytest.skip(reason)
    properties = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with ApacheKafka(heap="512m", properties=properties) as kafka:
        yield kafka, Topics(kafka.bootstrap)


@pytest.mark.parametrize(
    "kind", [HEADRACE, pytest.param(APACHE_KAFKA, marks=pytest.mark.apache_kafka)]
)
def test_a_flow_goes_on_when_its_broker_is_back(
    spark: "SparkSession", tmp_path: Path, fresh_name: str, kind: str
):
    source, target = f"{fresh_name}-in", f"{fresh_name}-out"
    said: list[str] = []
    with broker_of_its_own(kind) as (broker, topics):
        prices = iter(range(1000))

        def write(count: int) -> None:
            orders = [{"customer": "ada", "price": next(prices)} for _ in range(count)]
            topics.write(source, *orders)

        write(5)
        flow = Flow(fresh_name, settings=topics.settings(tmp_path, tries=1), spark=spark)
        flow.topic(target, flow.stream(source, ORDER, max_records_per_batch=3))
        with FlowRun(flow, tell=said.append).start() as run:
            wait_until(lambda: run.progress[0].written == 5)
            broker.kill()
            broker.start()
            write(5)
            wait_until(lambda: run.progress[0].written >= 10)
            broker.kill()
            if kind == HEADRACE:
                # For so long that the query fails and is tried again; the reason names the cluster.
                wait_until(lambda: bool(said), 240)
                assert f"Cannot reach a Kafka cluster at {topics.bootstrap}" in said[0]
            broker.start()
            write(5)
            wait_until(lambda: len(topics.read(target)) >= 15, 240)
        found = [value["price"] for _, value in topics.read(target) if isinstance(value, dict)]
        assert sorted(found) == list(range(15))
