"""A process that runs a flow, killed in the middle of a batch."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 600.0
"""In which a driver has to do something."""


@dataclass(frozen=True)
class Driver:
    """How a flow is run that reads what is there and ends, and where its queries plan batches."""

    command: Sequence[str]
    log: Path
    planned: Path
    """Spark's directory of the offsets of one of the flow's queries."""

    environment: Mapping[str, str] | None = None

    def kill(self, chance: random.Random, first: int = 1) -> None:
        """Run it, and kill it some batches later, at the earliest in the `first` one."""
        with self._running() as driver:
            wanted = batches(self.planned) + chance.randint(first, 3)
            self._await_batch(driver, wanted)
            time.sleep(chance.uniform(0, 1.0))

    def finish(self) -> None:
        """Run it to its end."""
        with self._running() as driver:
            assert driver.wait(SECONDS) == 0, self.log.read_text()[-6000:]

    @contextlib.contextmanager
    def _running(self) -> Iterator[subprocess.Popen[bytes]]:
        """A driver, killed with all of its processes unless it has ended by itself."""
        environment = None if self.environment is None else {**os.environ, **self.environment}
        with self.log.open("ab") as file:
            driver = subprocess.Popen(
                self.command, stdout=file, stderr=file, start_new_session=True, env=environment
            )
        try:
            yield driver
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()

    def _await_batch(self, driver: subprocess.Popen[bytes], wanted: int) -> None:
        deadline = time.monotonic() + SECONDS
        while batches(self.planned) < wanted:
            said = self.log.read_text()[-6000:]
            assert driver.poll() is None, f"the driver has ended by itself:\n{said}"
            assert time.monotonic() < deadline, f"no batch {wanted} in {self.planned}"
            time.sleep(0.02)


def batches(planned: Path) -> int:
    """How many batches a query has begun."""
    return sum(each.name.isdecimal() for each in planned.iterdir()) if planned.exists() else 0
