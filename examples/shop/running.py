"""`headrace up` as a process of ours: started, listened to, and ended with all that it runs."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from examples.shop.opening import Premises
from headrace.errors import HeadraceError

ROOT: Final = Path(__file__).parents[2]

_STOP_SECONDS: Final = 60.0
_TICK_SECONDS: Final = 0.1
_SAID: Final = 2_000


class ShopFailed(HeadraceError):
    """`headrace up` ended by itself; the message has the last that it said."""


class Running:
    """A shop that runs until the block ends, whatever ends it."""

    def __init__(self, premises: Premises) -> None:
        self._premises = premises
        self._log = premises.directory / "up.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process that runs all others."""
        return self._process.pid if self._process is not None else 0

    def __enter__(self) -> "Running":
        command = ("-m", "headrace", "--config", str(self._premises.settings), "up")
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            # What is killed cannot tidy up; what it leaves goes with the shop.
            "TMPDIR": str(self._premises.scratch),
            # By default every thread gets a heap of its own from the C library.
            "MALLOC_ARENA_MAX": "2",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=self._premises.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches a whole process group; this one is ended in order instead.
                start_new_session=True,
            )
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End everything in order, and at once what does not."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
            return
        process.send_signal(signal.SIGTERM)  # once more ends everything at once
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        process.kill()
        process.wait()

    def check(self) -> None:
        """ShopFailed if it has ended."""
        assert self._process is not None
        if self._process.poll() is not None:
            said = self._log.read_text(errors="replace")[-_SAID:]
            raise ShopFailed(f"the shop ended with status {self._process.returncode}:\n{said}")

    def is_up(self) -> bool:
        """Whether every part has been started, and answers."""
        self.check()
        return "Headrace is up" in self._log.read_text(errors="replace")

    def sleep(self) -> None:
        """Wait a little, and see that it is still there."""
        self.check()
        time.sleep(_TICK_SECONDS)
