"""The Spark that flows run on: what it is set to, how little it says, and that it ends."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.settings import StreamsSettings
from headrace.streams.session import configuration, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE_COUNT = """
from headrace.settings import StreamsSettings
from headrace.streams.session import spark_session, stop_session
session = spark_session(StreamsSettings(master="local[1]"))
print(session.range(7).count())
stop_session()
"""


def test_spark_is_set_up_for_flows():
    chosen = configuration(StreamsSettings(master="local[3]", memory=2 << 30), scratch=Path("s"))
    assert chosen["spark.sql.shuffle.partitions"] == "6"
    assert chosen["spark.driver.memory"] == "2048m"
    assert chosen["spark.pyspark.python"] == sys.executable
    assert chosen["spark.sql.session.timeZone"] == "UTC"
    assert chosen["spark.sql.streaming.stateStore.providerClass"].endswith(
        "RocksDBStateStoreProvider"
    )
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
def test_a_start_says_one_line_and_an_end_none():
    result = subprocess.run(
        [sys.executable, "-c", ONE_COUNT], capture_output=True, text=True, timeout=200, check=True
    )
    assert result.stdout == "7\n"
    line, *others = result.stderr.splitlines()
    assert others == []
    assert line.startswith("Spark 4.2.0 at local[1] on Java ")
