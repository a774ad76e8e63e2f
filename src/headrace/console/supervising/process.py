"""One part as a process: started, watched, started again after a pause, ended."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Final

from headrace.console.supervising.parts import Part
from headrace.kafka.reachability import reason_nobody_answers
from headrace.settings import UpSettings

_PR_SET_PDEATHSIG: Final = 1
_STEADY_SECONDS: Final = 30.0
"""After which a process counts as healthy, and its next failure as the first."""

_LOG_BYTES: Final = 20 << 20
"""Beyond which a log is set aside when its process starts."""

_TAIL_BYTES: Final = 4096

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class Doing(StrEnum):
    """What a process is doing."""

    WAITING = "waiting"
    """For its turn."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    """It failed, and is started again after a while."""

    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"


class Process:
    """The life of a part; `tick` moves it on and is called several times a second.

    Belongs to one thread, which must live as long as the supervisor: the system ends a process when
    the thread that started it has ended.
    """

    def __init__(
        self,
        part: Part,
        settings: UpSettings,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.part = part
        self.doing = Doing.WAITING
        self.restarts = 0
        self.exit: int | None = None
        """With what it last ended; negative for a signal."""
        self.log = settings.state / "logs" / f"{re.sub(r'[^a-zA-Z0-9._@-]', '_', part.name)}.log"
        self._settings = settings
        self._monotonic = monotonic
        self._process: subprocess.Popen[bytes] | None = None
        self._began = self._due = self._deadline = 0.0
        self._failures = 0

    @property
    def pid(self) -> int | None:
        """The process, if there is one now."""
        return None if self._process is None else self._process.pid

    @property
    def ready(self) -> bool:
        """Whether those who wait for it can go on."""
        return self.doing in (Doing.RUNNING, Doing.FINISHED, Doing.STOPPED)

    @property
    def gone(self) -> bool:
        """Whether nothing of it runs, and nothing will by itself."""
        return self._process is None and self.doing in (Doing.STOPPED, Doing.FINISHED)

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is not None:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        self._began = self._monotonic()
        with self.log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    list(self.part.command),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # The Ctrl-C that ends the supervisor is not meant for it.
                    start_new_session=True,
                    preexec_fn=_end_with(os.getpid()),  # noqa: PLW1509 - nothing else runs yet
                )
            except OSError as error:
                log.write(f"{self.part.command[0]} cannot be started: {error}\n".encode())
                self._failed(127)
                return
        self.doing = Doing.STARTING

    def stop(self) -> None:
        """Ask it to end; `tick` waits for that, and kills it when it takes too long."""
        if self._process is None:
            self.doing = Doing.STOPPED
        elif self.doing is not Doing.STOPPING:
            self.doing = Doing.STOPPING
            self._deadline = self._monotonic() + self._settings.patience_ms / 1000
            self._process.terminate()

    def kill(self) -> None:
        """End it and all that it started, now."""
        if self._process is not None:
            self.doing = Doing.STOPPING
            _kill_group(self._process.pid)

    def tick(self) -> None:
        """Notice what has happened since the last time, and do what is due."""
        if self._process is None:
            if self.doing is Doing.PAUSING and self._monotonic() >= self._due:
                self.restarts += 1
                self.start()
            return
        if (code := self._process.poll()) is not None:
            # What it leaves behind would go on without anybody who knows of it.
            _kill_group(self._process.pid)
            self._process = None
            self._ended(code)
        elif self.doing is Doing.STARTING and self._answers():
            self.doing = Doing.RUNNING
        elif self.doing is Doing.STOPPING and self._monotonic() > self._deadline:
            _kill_group(self._process.pid)

    def last_words(self) -> str:
        """The last line of its log that says anything."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(self.log.stat().st_size - _TAIL_BYTES, 0))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _ended(self, code: int) -> None:
        self.exit = code
        if self.doing is Doing.STOPPING:
            self.doing = Doing.STOPPED
        elif code == 0 and not self.part.again:
            self.doing = Doing.FINISHED
        else:
            self._failed(code)

    def _failed(self, code: int) -> None:
        self.exit = code
        if self._monotonic() - self._began > _STEADY_SECONDS:
            self._failures = 0
        pause = min(self._settings.backoff_ms << min(self._failures, 20), self._longest)
        self._failures += 1
        self._due = self._monotonic() + pause / 1000
        self.doing = Doing.PAUSING

    @property
    def _longest(self) -> int:
        return self._settings.backoff_max_ms

    def _answers(self) -> bool:
        address = self.part.address
        return address is None or reason_nobody_answers(address) is None


def _end_with(parent: int) -> Callable[[], None] | None:
    """What a new process does first: have the system end it when its parent ends, however."""
    if _libc is None:
        return None
    prctl = _libc.prctl

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return end_with_parent


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
