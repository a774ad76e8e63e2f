"""Flows on a Spark cluster of two processes, and executors that the cluster starts.

A process has one Spark, so the tests of flows run once more in another one. This is a choice that
takes about a minute; `pytest tests/streams --spark standalone` runs all of them there.
"""

import subprocess
import sys

import pytest

SOURCE = "tests/streams/source/test_source.py"
APPLYING = "tests/streams/sinks/test_applying.py"
RUNNING = "tests/streams/running/test_running.py"
CHOSEN = (
    f"{SOURCE}::test_a_query_reads_each_record_once_over_restarts",
    f"{APPLYING}::test_a_batch_that_comes_again_writes_nothing",
    f"{RUNNING}::test_a_flow_reads_what_is_there_once",
    f"{RUNNING}::test_a_poison_batch_is_given_up_and_the_other_query_goes_on",
    "tests/streams/cluster/test_losses.py",
    "tests/streams/cluster/test_command.py",
)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("spark_master")
def test_flows_run_on_a_cluster_of_processes(pytestconfig: pytest.Config):
    if pytestconfig.getoption("--spark") != "local[2]":
        pytest.skip("everything runs on another Spark already")
    options = ("--spark", "standalone", "-m", "not apache_kafka", "-q", "-p", "no:cacheprovider")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *CHOSEN],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
    assert "skipped" not in result.stdout.splitlines()[-1], result.stdout[-3000:]
