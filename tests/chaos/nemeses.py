"""What is done to the broker while clients work with it.

The seed decides what, when and how much; a schedule can therefore be printed, and repeated.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.chaos.history import Fault, Recorder
from tests.chaos.targets import HeadraceTarget, Target, halt, let_go_on

KILL, HALT, CLOCK, SLOW_DISK, TORN_WRITE = "kill", "halt", "clock", "slow-disk", "torn-write"

EVERYTHING = (KILL, HALT, CLOCK, SLOW_DISK, TORN_WRITE)
"""What can be done to a broker of our own."""

FROM_OUTSIDE = (KILL, HALT)
"""What can be done to any process."""

MOST_CLOCK_SKEW_MS = 50 * 60 * 1000
"""How far the clock jumps: brokers refuse records that seem to come from an hour ahead."""

_TEAR_SECONDS = 2.0


class Step(NamedTuple):
    """One fault of a schedule: after a pause, something happens, to some extent (0 to 1)."""

    pause: float
    fault: str
    extent: float


def schedule(seed: str, faults: tuple[str, ...], mean_pause: float) -> Iterator[Step]:
    """An endless schedule of faults."""
    source = random.Random(f"{seed}/nemesis")
    while True:
        yield Step(source.uniform(0.3, 1.7) * mean_pause, source.choice(faults), source.random())


class Nemesis:
    """Carries a schedule out until it is stopped, then makes everything well again."""

    def __init__(
        self,
        target: Target,
        recorder: Recorder,
        seed: str,
        faults: tuple[str, ...],
        *,
        mean_pause: float = 1.2,
    ) -> None:
        self._target = target
        self._recorder = recorder
        self._steps = schedule(seed, faults, mean_pause)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nemesis")
        self.failure: Exception | None = None
        """Why the broker could not be started again."""
        self.count = 0
        """How many faults there were."""
        self._actions: dict[str, Callable[[float], str]] = {
            KILL: self._kill,
            HALT: self._halt,
            CLOCK: self._jump,
            SLOW_DISK: self._slow_down,
            TORN_WRITE: self._tear,
        }

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the faults; the clock is right and the disk is quick afterwards."""
        self._stopping.set()
        self._thread.join()
        if self._target.steerable:
            self._target.steer("slow_disk", write_seconds=0, sync_seconds=0)
            self._target.steer("set_clock", ahead_ms=0)

    def _run(self) -> None:
        for pause, fault, extent in self._steps:
            if self._stopping.wait(pause):
                return
            try:
                details = self._actions[fault](extent)
            except Exception as failure:
                self.failure = failure
                return
            self.count += 1
            self._recorder.add(Fault, "nemesis", fault, details)

    def _kill(self, extent: float) -> str:
        self._target.kill()
        time.sleep(extent * 0.3)
        self._target.start()
        return "-9"

    def _halt(self, extent: float) -> str:
        halt(self._target)
        time.sleep(extent * 3)
        let_go_on(self._target)
        return f"{extent * 3:.2f} s"

    def _jump(self, extent: float) -> str:
        ahead_ms = round((2 * extent - 1) * MOST_CLOCK_SKEW_MS)
        self._target.steer("set_clock", ahead_ms=ahead_ms)
        return f"{ahead_ms} ms ahead"

    def _slow_down(self, extent: float) -> str:
        # Now and then the disk recovers.
        seconds = max(extent - 0.3, 0) * 0.2
        self._target.steer("slow_disk", write_seconds=seconds / 20, sync_seconds=seconds)
        return f"{seconds:.3f} s"

    def _tear(self, extent: float) -> str:
        target = self._target
        assert isinstance(target, HeadraceTarget)
        target.steer("tear_write", after=int(extent * 40), kept=(extent * 40) % 1)
        torn = target.await_death(_TEAR_SECONDS)
        target.kill()
        target.start()
        return f"write {int(extent * 40)} from then" if torn else "none came, killed instead"
