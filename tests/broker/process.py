"""A broker in a process of its own that a test can kill and start again."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from headrace.testing.probe import free_ports


class BrokerProcess:
    """`headrace broker` on a fixed port and data directory."""

    def __init__(self, data: Path, *options: str, port: int | None = None) -> None:
        self.port = port or free_ports(1)[0]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._command = [sys.executable, "-m", "headrace", "broker", "--port", str(self.port)]
        self._command += ["--data", str(data), *options]
        self._log = data.with_name(f"{data.name}.log")
        self._process: subprocess.Popen[str] | None = None

    @property
    def log(self) -> str:
        """What the broker has logged, over all its lives."""
        return self._log.read_text()

    @property
    def pid(self) -> int:
        """The running process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait for the ready line."""
        with self._log.open("a") as errors:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert self.bootstrap in line, f"no ready line but {line!r}\n{self.log[-2000:]}"

    def kill(self) -> None:
        """End the process without giving it a chance to do anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask the process to stop; its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        assert self._process is not None
        with self._process as process:
            os.kill(process.pid, how)
            code = process.wait(20)
        self._process = None
        return code

    @contextlib.contextmanager
    def running(self) -> Iterator["BrokerProcess"]:
        """Started now, gone afterwards, whatever happened in between."""
        self.start()
        try:
            yield self
        finally:
            if self._process is not None:
                self.kill()
