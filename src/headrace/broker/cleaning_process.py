"""The compaction worker as the broker sees it: jobs go in, reports come out."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

from headrace.broker.worker_process import start_worker
from headrace.errors import HeadraceError
from headrace.log.compaction_job import (
    CompactionJob,
    Report,
    RewrittenFiles,
    decode_report,
)

WORKER: Final = "headrace.broker.cleaning_worker"


class WorkerGone(HeadraceError):
    """The worker ended in the middle of a job; nothing is lost, another one can begin anew."""


class CleaningProcess:
    """Starts a worker when there is a job, and keeps it until told otherwise.

    One thread waits for what the worker says, so that the event loop need not.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._writing = Lock()
        self._limit = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headrace-compaction")

    async def run(self, job: CompactionJob) -> AsyncIterator[Report]:
        """Give the worker a job and yield its reports; the last is `RoundEnd` or `RoundFailed`.

        Raises `WorkerGone` if it ends before that.
        """
        loop = asyncio.get_running_loop()
        line = await loop.run_in_executor(self._thread, self._submit, job)
        while True:
            # A line without an end is the last that a killed worker said.
            if not line.endswith("\n"):
                self.stop()
                raise WorkerGone("the compaction worker ended unexpectedly; it is started again")
            report = decode_report(line)
            yield report
            if not isinstance(report, RewrittenFiles):
                return
            line = await loop.run_in_executor(self._thread, self._read)

    def limit(self, bytes_per_second: int) -> None:
        """Let the worker move so many bytes a second from now on, or as many as it can for 0."""
        self._limit = bytes_per_second
        if self._process is not None:
            self._tell(self._process, str(bytes_per_second))

    def stop(self) -> None:
        """End the worker at once, whatever it does; the next job starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            # It may be a while until the system has let go of it.
            self._thread.submit(_bury, process)

    def _submit(self, job: CompactionJob) -> str:
        process = self._process
        if process is None:
            process = self._process = start_worker(WORKER)
            self._tell(process, str(self._limit))
        return self._read() if self._tell(process, job.encode()) else ""

    def _tell(self, process: "subprocess.Popen[str]", line: str) -> bool:
        """Send a line; False if nobody is there any more to read it."""
        assert process.stdin is not None
        with self._writing:
            try:
                process.stdin.write(line + "\n")
                process.stdin.flush()
            except (BrokenPipeError, ValueError):
                return False
        return True

    def _read(self) -> str:
        process = self._process
        if process is None:
            return ""
        assert process.stdout is not None
        return process.stdout.readline()


def _bury(process: "subprocess.Popen[str]") -> None:
    """Let go of a process that was killed."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    process.wait()
