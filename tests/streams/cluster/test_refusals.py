"""What keeps a flow from running is told in a sentence, and costs nothing that was there before."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.kafka import ClusterError
from headrace.settings import Settings
from headrace.streams import Flow
from headrace.streams.running import CheckpointMismatch, FlowAlreadyRunning, QueryGivenUp
from tests.clusters import Cluster, on_one_cluster
from tests.secure_kafka import PASSWORD, SecureKafka
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDER = "customer string, price double"


@pytest.fixture
def topics(cluster: Cluster) -> Topics:
    return Topics(cluster.bootstrap)


def copying(
    spark: "SparkSession", settings: Settings, name: str, *, schema: str = ORDER, flow: str = "copy"
) -> Flow:
    """A flow that copies one topic to another."""
    copy = Flow(f"{name}-{flow}", settings=settings, spark=spark)
    copy.topic(f"{name}-out", copy.stream(f"{name}-in", schema))
    return copy


@on_one_cluster
def test_records_that_a_schema_does_not_fit_are_named_and_read_with_one_that_does(
    spark: "SparkSession", topics: Topics, tmp_path: Path, fresh_name: str
):
    settings = topics.settings(tmp_path)
    topics.write(f"{fresh_name}-in", {"customer": "ada", "price": "a lot"})
    with pytest.raises(QueryGivenUp, match=rf"offset 0 of {fresh_name}-in-0 does not parse.*price"):
        copying(spark, settings, fresh_name).run(once=True)
    assert topics.read(f"{fresh_name}-out") == []
    fitting = "customer string, price string"
    assert copying(spark, settings, fresh_name, schema=fitting).run(once=True).written == 1
    assert topics.read(f"{fresh_name}-out") == [(None, {"customer": "ada", "price": "a lot"})]


@on_one_cluster
def test_the_checkpoint_of_another_flow_is_refused_and_left_as_it_is(
    spark: "SparkSession", topics: Topics, tmp_path: Path, fresh_name: str
):
    settings = topics.settings(tmp_path)
    topics.write(f"{fresh_name}-in", {"customer": "ada", "price": 1})
    one = copying(spark, settings, fresh_name)
    one.run(once=True)
    other = copying(spark, settings, fresh_name, flow="other")
    shutil.copytree(tmp_path / one.name, tmp_path / other.name)
    before = _files(tmp_path)
    with pytest.raises(CheckpointMismatch, match=f"of flow {one.name}, and this is .* of flow"):
        other.run(once=True)
    assert _files(tmp_path) == before
    assert one.run(once=True).written == 0


@contextmanager
def running_elsewhere(
    topics: Topics, checkpoints: str, name: str
) -> Iterator[subprocess.Popen[str]]:
    """The same flow in another process, which holds the lease by now."""
    command = [sys.executable, "-m", "tests.streams.cluster.lease_holder"]
    command += [topics.bootstrap, f"{name}-copy", f"{checkpoints}/{name}-copy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.mark.timeout(300)
@on_one_cluster
def test_behind_a_url_a_second_run_is_refused_until_the_first_is_dead(
    spark: "SparkSession", topics: Topics, tmp_path: Path, fresh_name: str
):
    checkpoints = f"file://{tmp_path}"
    topics.write(f"{fresh_name}-in", {"customer": "ada", "price": 1})
    flow = copying(spark, topics.settings(checkpoints), fresh_name)
    with running_elsewhere(topics, checkpoints, fresh_name) as first:
        refusal = rf"{flow.name} is running already, in process {first.pid} on .*{checkpoints}"
        with pytest.raises(FlowAlreadyRunning, match=refusal):
            flow.run(once=True)
        assert list(tmp_path.iterdir()) == []
        first.kill()
        first.wait()
        assert flow.run(once=True).written == 1


@pytest.mark.timeout(300)
@on_one_cluster
def test_a_run_that_slept_is_told_that_another_has_taken_over(
    spark: "SparkSession", topics: Topics, tmp_path: Path, fresh_name: str
):
    checkpoints = f"file://{tmp_path}"
    topics.write(f"{fresh_name}-in", {"customer": "ada", "price": 1})
    flow = copying(spark, topics.settings(checkpoints), fresh_name)
    with running_elsewhere(topics, checkpoints, fresh_name) as first:
        first.send_signal(signal.SIGSTOP)
        with flow.start():
            first.send_signal(signal.SIGCONT)
            assert first.stdout is not None
            told = first.stdout.readline()
            assert told.startswith(f"Flow {flow.name} was taken over by process {os.getpid()} on")


@pytest.mark.apache_kafka
@pytest.mark.timeout(300)
def test_a_flow_runs_with_tls_and_a_password_and_not_without(
    spark: "SparkSession", secure_kafka: SecureKafka, tmp_path: Path, fresh_name: str
):
    topics = Topics(secure_kafka.broker.bootstrap)
    topics.write(f"{fresh_name}-in", {"customer": "ada", "price": 1})

    def settings(password: str) -> Settings:
        kafka = secure_kafka.by_password("BOTH", "SCRAM-SHA-512", password)
        return dataclasses.replace(topics.settings(tmp_path), kafka=kafka)

    with pytest.raises(ClusterError, match="Authentication failed"):
        copying(spark, settings("guess"), fresh_name).run(once=True)
    assert copying(spark, settings(PASSWORD), fresh_name).run(once=True).written == 1
    assert topics.read(f"{fresh_name}-out") == [(None, {"customer": "ada", "price": 1.0})]


def _files(directory: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(directory)): each.read_bytes()
        for each in directory.rglob("*")
        if each.is_file()
    }
