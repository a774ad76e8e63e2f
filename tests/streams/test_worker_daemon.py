"""What Spark's Python workers are forked from: silent when Spark closes a worker's socket."""

import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from headrace.streams.worker_daemon import write_launcher

_MILLISECONDS = 60_000


def said_about_a_closed_worker(python: str | Path, directory: Path) -> str:
    """Let Spark's part be played: a worker is asked for, and before it has work its socket goes."""
    daemon = subprocess.Popen(
        [python, "-m", "pyspark.daemon", "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(directory),
            "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
            "SPARK_REUSE_WORKER": "1",
        },
    )
    with daemon:
        assert daemon.stdout is not None
        (length,) = struct.unpack("!i", daemon.stdout.read(4))
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(daemon.stdout.read(length).decode())
            (worker,) = struct.unpack("!i", spark.recv(4, socket.MSG_WAITALL))
            ended = os.pidfd_open(worker)
        waiting = select.poll()
        waiting.register(ended, select.POLLIN)
        assert waiting.poll(_MILLISECONDS)
        os.close(ended)
        _, said = daemon.communicate(timeout=60)
    return said.decode()


def test_a_worker_that_spark_needs_no_longer_ends_in_silence(
    tmp_path_factory: pytest.TempPathFactory,
):
    # The path of a Unix domain socket may have about a hundred characters.
    directory = tmp_path_factory.mktemp("s")
    assert "BrokenPipeError" in said_about_a_closed_worker(sys.executable, directory)
    launcher = write_launcher(tmp_path_factory.mktemp("a home"), sys.executable)
    assert said_about_a_closed_worker(launcher, directory) == ""


def test_the_launcher_is_python_for_everything_else(tmp_path: Path):
    launcher = write_launcher(tmp_path, sys.executable)
    program = "import sys; print(sys.executable, sys.argv[1:])"
    said = subprocess.check_output([launcher, "-c", program, "a b", "-m"], text=True)
    assert said == f"{sys.executable} ['a b', '-m']\n"


def test_what_looks_at_operators_before_a_query_prints_nothing(tmp_path: Path):
    """It would be on the terminal, page by page, whenever a flow with state starts."""
    module = tmp_path / "pyspark" / "sql" / "streaming" / "transform_with_state_driver_worker.py"
    module.parent.mkdir(parents=True)
    for each in module.parents[:3]:
        (each / "__init__.py").touch()
    module.write_text("import sys; print('starting'); print('failing', file=sys.stderr)")
    launcher = write_launcher(tmp_path / "home", sys.executable)
    said = subprocess.run(
        [launcher, "-m", "pyspark.sql.streaming.transform_with_state_driver_worker"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (said.stdout, said.stderr) == ("", "failing\n")
