"""The Spark that flows run on: what it is set to, how little it says, and that it ends."""

import os
import select
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.settings import StreamsSettings
from headrace.streams.session import configuration, spark_session
from headrace.streams.state.budget import Limits
from headrace.streams.state.keyed import limits_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE_COUNT = """
from headrace.settings import StreamsSettings
from headrace.streams.session import spark_session, stop_session
session = spark_session(StreamsSettings(master="local[1]"))
print(session.range(7).count())
stop_session()
"""

STARTED_AND_WAITING = """
import signal
from pyspark import SparkContext
from headrace.settings import StreamsSettings
from headrace.streams.session import spark_session
signal.signal(signal.SIGINT, lambda number, frame: None)
before = signal.getsignal(signal.SIGINT)
spark_session(StreamsSettings(master="local[1]"))
kept = "kept" if signal.getsignal(signal.SIGINT) is before else "taken"
print(SparkContext._gateway.proc.pid, kept, flush=True)
input()
"""


def test_spark_is_set_up_for_flows():
    chosen = configuration(StreamsSettings(master="local[3]", memory=2 << 30), scratch=Path("s"))
    assert chosen["spark.sql.shuffle.partitions"] == "3"
    assert chosen["spark.driver.memory"] == "2048m"
    assert chosen["spark.pyspark.python"] == sys.executable
    assert chosen["spark.sql.session.timeZone"] == "UTC"
    assert chosen["spark.sql.streaming.stateStore.providerClass"].endswith(
        "RocksDBStateStoreProvider"
    )
    assert chosen["spark.sql.execution.arrow.maxRecordsPerBatch"] == "1000"
    assert chosen["spark.executorEnv.POLARS_MAX_THREADS"] == "1"
    assert chosen["spark.ui.enabled"] == "false"
    assert chosen["spark.driver.host"] == "127.0.0.1"


def test_a_cluster_may_reach_the_driver_from_elsewhere():
    chosen = configuration(StreamsSettings(master="spark://one:7077"), scratch=Path("s"))
    assert "spark.driver.host" not in chosen


def test_a_cluster_on_loopback_stays_there():
    chosen = configuration(StreamsSettings(master="spark://127.0.0.1:7077"), scratch=Path("s"))
    assert chosen["spark.driver.host"] == chosen["spark.driver.bindAddress"] == "127.0.0.1"


def test_properties_of_the_user_win():
    settings = StreamsSettings(properties={"spark.sql.shuffle.partitions": "50"})
    assert configuration(settings, scratch=Path("s"))["spark.sql.shuffle.partitions"] == "50"


def test_what_state_may_take_is_a_setting():
    settings = StreamsSettings(state_limit=3 << 20, state_memory=2 << 20)
    chosen = configuration(settings, scratch=Path("s"))
    assert limits_of(_session(chosen)) == Limits(bucket=3 << 20, memory=2 << 20)
    usual = configuration(StreamsSettings(), scratch=Path("s"))
    assert limits_of(_session(usual)) == limits_of(_session({})) == Limits()


def _session(properties: dict[str, str]) -> Any:
    """As much of a session as is asked for its properties."""
    return SimpleNamespace(conf=properties)


def test_the_page_of_spark_is_shown_where_it_is_asked_for():
    chosen = configuration(StreamsSettings(ui="127.0.0.1:4040"), scratch=Path("s"))
    assert (chosen["spark.ui.enabled"], chosen["spark.ui.port"]) == ("true", "4040")


def test_the_session_that_is_there_is_used(spark: "SparkSession"):
    assert spark_session(StreamsSettings(memory=4 << 30)) is spark


def test_workers_import_the_pyspark_that_is_installed(spark: "SparkSession", spark_master: str):
    import pyspark

    def place(_: int) -> str:
        return str(sys.modules["pyspark"].__file__)

    if not spark_master.startswith("local"):
        pytest.skip("a cluster has a PySpark of its own")
    assert spark.sparkContext.parallelize([0], 1).map(place).collect() == [pyspark.__file__]


@pytest.mark.usefixtures("spark")
def test_a_start_says_when_it_begins_and_when_it_is_done_and_an_end_nothing():
    result = subprocess.run(
        [sys.executable, "-c", ONE_COUNT], capture_output=True, text=True, timeout=200, check=True
    )
    assert result.stdout == "7\n"
    begun, done = result.stderr.splitlines()
    assert begun == "Starting Spark ..."
    assert done.startswith("Spark 4.2.0 at local[1] on Java ")


@pytest.mark.usefixtures("spark")
def test_java_is_out_of_reach_of_a_terminal_and_ends_with_its_driver():
    with subprocess.Popen(
        [sys.executable, "-c", STARTED_AND_WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as driver:
        assert driver.stdout is not None
        java, kept = driver.stdout.readline().split()
        try:
            ended = os.pidfd_open(int(java))
            assert os.getsid(int(java)) != os.getsid(driver.pid)
            assert kept == b"kept"
        finally:
            driver.kill()
        waiting = select.poll()
        waiting.register(ended, select.POLLIN)
        assert waiting.poll(60_000), "Java is still there"
        os.close(ended)
