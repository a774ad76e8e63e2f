"""Delta tables through Spark: rows that are added, replaced and deleted, each batch once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace import Broker
from headrace.streams import Flow
from headrace.streams.errors import InvalidFlow, SparkFailed
from headrace.streams.launch import Launch, launching
from headrace.streams.realtime.jars import file_name
from headrace.streams.sinks.delta_library import (
    PACKAGES,
    reason_not_started,
    require_library,
    with_library,
)
from headrace.views.copying import Copy
from headrace.views.stores.errors import StoreRefused
from tests.streams.sinks.delta_driver import NO_LIBRARY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.usefixtures("_standalone")
def test_a_flow_keeps_tables_there_and_a_batch_that_comes_again_writes_nothing(
    tmp_path: Path,
) -> None:
    with Broker(flush="os") as broker:
        command = [sys.executable, "-m", "tests.streams.sinks.delta_driver", broker.bootstrap]
        done = subprocess.run(
            [*command, str(tmp_path)], capture_output=True, text=True, timeout=180, check=False
        )
    # What is fetched before is told of, too.
    *_, last = lines = done.stdout.splitlines()
    if done.returncode == NO_LIBRARY:
        pytest.skip(str(json.loads(last)))
    assert done.returncode == 0, done.stderr
    first, second, third, written = map(json.loads, lines[-4:])
    assert first == {
        "orders": [[[1, "hat", 6.0], [2, "shoe", 7.0]], 2],
        "clicks": [[["/"], ["/"]], 1],
    }
    assert second == {
        "orders": [[[2, "shoe", 8.0], [3, "sock", 1.0]], 3],
        "clicks": [[["/"], ["/"], ["/cart"]], 2],
    }
    assert third == second
    assert written == [0, 0]


def test_a_spark_is_started_with_the_library_beside_what_it_has(tmp_path: Path) -> None:
    given = {"spark.sql.extensions": "org.example.Other", "spark.sql.shuffle.partitions": "3"}
    fetching = with_library(given, tmp_path)
    assert fetching["spark.jars.packages"].split(",") == list(PACKAGES)
    assert fetching["spark.sql.extensions"] == f"org.example.Other,{EXTENSION}"
    assert fetching["spark.databricks.delta.snapshotPartitions"] == "3"
    reason = reason_not_started(fetching)
    assert "spark.jars.ivySettings" in reason
    assert str(tmp_path / "jars") in reason
    (tmp_path / "jars").mkdir()
    for each in PACKAGES:
        (tmp_path / "jars" / file_name(each)).touch()
    kept = with_library({"spark.jars": "own.jar"}, tmp_path)
    assert kept["spark.jars"].startswith(f"own.jar,{tmp_path}/jars/io.delta_delta-spark")
    assert "spark.jars.packages" not in kept
    assert reason_not_started(kept) == ""
    own = {"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.5.0"}
    assert with_library(own, tmp_path)["spark.jars.packages"] == own["spark.jars.packages"]


def test_only_flows_of_the_run_that_write_there_ask_for_the_library() -> None:
    with launching(Launch(flow="second")):
        first, second = Flow("first"), Flow("second")
    for flow in (first, second):
        assert not flow._writes_delta
        flow.sink("clicks", flow.stream("clicks", "user string"), to="delta:///lake")
    assert (first._writes_delta, second._writes_delta) == (False, True)


def test_a_session_without_the_library_is_refused_with_what_it_needs(spark: "SparkSession") -> None:
    with pytest.raises(SparkFailed, match="started with Delta's library") as refused:
        require_library(spark)
    assert f'spark.jars.packages = "{PACKAGES[0]}"' in str(refused.value)
    assert f'spark.sql.extensions = "{EXTENSION}"' in str(refused.value)


def test_what_makes_no_sense_is_refused() -> None:
    flow = Flow("shop")
    clicks = flow.stream("clicks", "user string, url string")
    with pytest.raises(InvalidFlow, match="no dead letters"):
        flow.sink("clicks", clicks, to="delta:///lake", dead_letters="refused")
    copy = Copy("clicks", to="delta:///lake", schema="user string")
    with pytest.raises(StoreRefused, match="written by Spark, in a flow"):
        copy._run._store.session()
