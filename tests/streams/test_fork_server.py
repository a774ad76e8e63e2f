"""What Spark starts one by one is forked from a process that has everything loaded."""

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from headrace.streams import fork_server
from headrace.streams.worker_daemon import forks_of, write_launcher

SOURCES = "pyspark.sql.streaming.python_streaming_source_runner"
PATIENCE_SECONDS = 60


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # The path of a Unix domain socket may have about a hundred characters.
    return tmp_path_factory.mktemp("a home")


@pytest.fixture
def server(home: Path) -> Iterator[int]:
    """The number of a server's process, when it is ready."""
    mine: list[subprocess.Popen[bytes]] = []
    others = fork_server._servers
    fork_server._servers = mine
    try:
        fork_server.start_server(forks_of(home))
        told = forks_of(home) / "pid"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not told.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield int(told.read_text())
        fork_server.end_servers()
    finally:
        fork_server._servers = others


@contextmanager
def started(home: Path) -> Iterator[tuple[int, socket.socket]]:
    """Play Spark's part: have a process started, and be connected to it."""
    launcher = write_launcher(home, sys.executable)
    path = home / "socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(PATIENCE_SECONDS)
        environment = {
            **os.environ,
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_PATH": str(path),
        }
        with subprocess.Popen([launcher, "-m", SOURCES], env=environment) as process:
            spark, _ = listening.accept()
            with spark:
                (number,) = struct.unpack("!i", spark.recv(4, socket.MSG_WAITALL))
                yield number, spark
            process.kill()
    path.unlink()


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_process_is_forked_with_the_environment_that_spark_gives_it(
    home: Path, server: int
) -> None:
    with started(home) as (process, _):
        assert parent_of(process) == server
        # What a fork has is told by the system as it was before; it has found the socket by it.
        assert list(forks_of(home).glob("[0-9]*")) == []


def test_a_fork_ends_when_spark_closes_the_connection(
    home: Path, server: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with started(home) as (process, _):
        ended = os.pidfd_open(process)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    assert waiting.poll(PATIENCE_SECONDS * 1000)
    os.close(ended)
    assert "BrokenPipe" not in capfd.readouterr().err


def test_without_a_server_a_python_is_started(home: Path, server: int) -> None:
    ended = os.pidfd_open(server)
    os.kill(server, signal.SIGKILL)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    assert waiting.poll(PATIENCE_SECONDS * 1000)
    os.close(ended)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while Path(f"/proc/{server}").exists():
        assert time.monotonic() < deadline, "it is reaped, so that nobody believes in it"
        time.sleep(0.02)
    with started(home) as (process, _):
        assert parent_of(process) != server


def test_a_server_ends_with_the_program_that_started_it(home: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from headrace.streams.fork_server import _servers, start_server\n"
        "start_server(Path(sys.argv[1]))\nprint(_servers[0].pid, flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(forks_of(home))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        ended = os.pidfd_open(int(starter.stdout.readline()))
        starter.kill()
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    assert waiting.poll(PATIENCE_SECONDS * 1000)
    os.close(ended)
