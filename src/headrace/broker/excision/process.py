"""The excision worker as the broker sees it: commands go in, results come out."""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from headrace.broker.worker_process import start_worker
from headrace.log.errors import LogError
from headrace.log.excision import (
    CheckReport,
    ExcisionRefused,
    FileChange,
    Findings,
    SegmentFile,
    Wanted,
)

WORKER: Final = "headrace.broker.excision.worker"
"""The module that is run."""


class WorkerFailed(LogError):
    """The worker ended in the middle of something; begin again."""


class ExcisionProcess:
    """A process that reads and writes segments for one excision; use it in a `with` statement.

    One thread waits for what the worker says, so that the event loop need not.
    """

    def __init__(self, wanted: Wanted, tag: str, on_progress: Callable[[int], None]) -> None:
        self._on_progress = on_progress
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headrace-excision")
        self._loop = asyncio.get_running_loop()
        self._process = start_worker(WORKER)
        self._introduction: dict[str, Any] | None = {**wanted.as_json(), "tag": tag}

    async def find(self, segment: SegmentFile) -> Findings:
        """Count what is to go of a segment; `ExcisionRefused` if it cannot be read."""
        return Findings.from_json(await self._ask("find", segment))

    async def rewrite(self, segment: SegmentFile) -> FileChange:
        """Write a segment anew beside itself; `ExcisionRefused` if that is not possible."""
        return FileChange.from_json(await self._ask("rewrite", segment))

    async def check(self, root: Path, until: Mapping[str, int]) -> CheckReport:
        """Look through a data directory for anything that is left."""
        return CheckReport.from_json(await self._ask("check", str(root), dict(until)))

    def stop(self) -> None:
        """End the worker at once, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._thread.shutdown()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    async def _ask(self, *command: object) -> Any:
        return await self._loop.run_in_executor(self._thread, self._talk, command)

    def _talk(self, command: tuple[object, ...]) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            if self._introduction is not None:
                stdin.write(json.dumps(self._introduction) + "\n")
                self._introduction = None
            stdin.write(json.dumps(command) + "\n")
            stdin.flush()
            while line := stdout.readline():
                message = json.loads(line)
                if "progress" in message:
                    self._loop.call_soon_threadsafe(self._on_progress, message["progress"])
                elif "refused" in message:
                    raise ExcisionRefused(message["refused"])
                else:
                    return message["done"]
        except (BrokenPipeError, ValueError) as error:
            raise WorkerFailed(f"the excision's worker ended: {error}; run it again") from error
        raise WorkerFailed("the excision's worker ended unexpectedly; run the excision again")
