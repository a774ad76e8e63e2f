"""The compaction worker as the broker sees it: jobs go in, reports come out."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

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
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                # A Ctrl-C on the broker's terminal is the broker's to handle.
                start_new_session=True,
            )
        assert process.stdin is not None
        try:
            process.stdin.write(job.encode() + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self._read()

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
