"""Running `headrace` on a terminal, where a person would sit."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clusters import Cluster

_LOOKS = 1000
"""How often to see whether a command waits, every hundredth of a second."""


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self._screen = screen
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def wait_for(self, text: str) -> None:
        """Read the screen until the text is on it."""
        while text not in self.shown:
            read = self._read()
            assert read, f"{text!r} did not appear in {self.shown!r}"
            self.shown += read

    def interrupt(self) -> None:
        """Press Ctrl-C once the command waits for what is typed.

        Python would notice it only with the next key if it came a moment before that.
        """
        status = Path(f"/proc/{self.process.pid}/stat")
        for _ in range(_LOOKS):
            if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "S":
                break
            time.sleep(0.01)
        self.process.send_signal(signal.SIGINT)

    def finish(self) -> int:
        """Read the screen to the end and return the exit code."""
        while read := self._read():
            self.shown += read
        return self.process.wait(10)

    def _read(self) -> str:
        try:
            return os.read(self._screen, 4096).decode()
        except OSError:  # the terminal's other side is closed
            return ""


@contextmanager
def terminal(*arguments: str, cluster: Cluster) -> Iterator[Terminal]:
    screen, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", *arguments],
        stdin=side,
        stdout=side,
        stderr=side,
        env={**os.environ, "HEADRACE_KAFKA_BOOTSTRAP": cluster.bootstrap, "NO_COLOR": ""},
    )
    os.close(side)
    with process:
        try:
            yield Terminal(process, screen)
        finally:
            process.kill()
            os.close(screen)
