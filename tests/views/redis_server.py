"""A Redis server of a test's own, from Debian's redis-server."""

import shutil
import socket
import subprocess
import tempfile
import time
from typing import Self


def unavailable() -> str | None:
    """Why there is no Redis here."""
    if shutil.which("redis-server") is None:
        return "redis-server is not installed; apt-get install redis-server"
    return None


class RedisServer:
    """A server on a socket of its own that keeps its data in a directory of its own."""

    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="headrace-redis-")
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, with what it has written to its append-only file."""
        self._process = subprocess.Popen(
            [
                *("redis-server", "--port", str(self.port), "--bind", "127.0.0.1"),
                *("--dir", self._directory, "--appendonly", "yes", "--save", ""),
                *("--databases", "200"),
            ],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16).startswith(b"+PONG"):
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError("redis-server does not answer")

    def kill(self) -> None:
        """End it without giving it a chance to do anything."""
        assert self._process is not None
        with self._process as process:
            process.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
