"""One run of a flow at a time: two would write each other's checkpoints."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.streams.running.errors import FlowAlreadyRunning


@contextmanager
def locked(directory: Path, flow: str) -> Iterator[None]:
    """Hold a flow's directory for this process; FlowAlreadyRunning names who has it instead.

    The system gives the lock back when the process ends, however that happens.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise FlowAlreadyRunning(
                f"Flow {flow} is running already, in {holder} (checkpoints in {directory}). Stop "
                "that one first, or give this one another name or another checkpoint directory."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield
