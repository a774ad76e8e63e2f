"""`make demo` from the outside: a short run of the real thing, whole and interrupted."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.apache_kafka import ApacheKafka
from headrace.testing.plugin import BrokerUnderTest
from tests.clusters import apache_kafka_cluster

ROOT = Path(__file__).parents[2]


def start(*options: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "examples.shop", *options],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """Where the demo keeps its broker's data; nothing may be left there."""
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def total(output: str) -> list[int]:
    """The last row of the summary: produced, stored, by analytics, by fraud."""
    row = re.search(r"│ all .*", output)
    assert row, output
    return [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", row[0])]


def test_a_timed_run_moves_a_member_and_ends_with_equal_numbers(temporary: Path) -> None:
    demo = start("--cycle-seconds", "3", DEMO_SECONDS="8", RATE="300", TMPDIR=str(temporary))
    output, _ = demo.communicate(timeout=90)
    assert demo.returncode == 0, output
    assert "analytics-3 has left" in output
    assert "analytics-3 is back" in output
    assert "All numbers agree." in output
    produced, stored, by_analytics, by_fraud = total(output)
    assert produced == stored == by_analytics > 1_000
    assert 0 < by_fraud < produced


def test_an_interrupt_ends_it_in_order_and_leaves_nothing_running(temporary: Path) -> None:
    demo = start(TMPDIR=str(temporary))
    assert demo.stdout is not None
    for line in demo.stdout:
        if re.search(r"[1-9][\d,]* events", line):
            break
    broker = children(demo.pid)
    assert broker
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=60)
    assert demo.returncode == 0, output
    assert "All numbers agree." in output
    assert not [pid for pid in broker if Path(f"/proc/{pid}").exists()]


def test_it_runs_on_a_cluster_that_is_already_there_and_tidies_up(
    headrace_broker: BrokerUnderTest,
) -> None:
    check_on_cluster(headrace_broker.bootstrap)


@pytest.mark.apache_kafka
def test_it_runs_on_apache_kafka() -> None:
    if reason := ApacheKafka.unavailable():
        pytest.skip(reason)
    with apache_kafka_cluster() as kafka:
        check_on_cluster(kafka.bootstrap)


def check_on_cluster(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient

    demo = start("--bootstrap", bootstrap, "--seconds", "2")
    output, _ = demo.communicate(timeout=90)
    assert demo.returncode == 0, output
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics
    assert not [name for name in topics if name.startswith("shop-")]


@pytest.mark.parametrize("rate", ["0", "-1", "many"])
def test_a_rate_that_cannot_be_is_refused(rate: str) -> None:
    demo = start(RATE=rate)
    output, _ = demo.communicate(timeout=20)
    assert demo.returncode == 2
    assert "--rate" in output


def children(parent: int) -> list[int]:
    """Processes that a process has started."""
    listing = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in listing.stdout.split()]
