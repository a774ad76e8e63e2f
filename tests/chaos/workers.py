"""What every client of a run has in common: a name, a source of decisions, and a thread."""

import random
import threading
from dataclasses import dataclass
from typing import Any

from tests.chaos.history import Recorder

TOPIC = "chaos"


@dataclass(frozen=True, slots=True)
class Run:
    """What the clients of a run share."""

    bootstrap: str
    partitions: int
    seed: str
    transaction_seconds: int
    """How long a transaction may take before the broker must abort it."""
    recorder: Recorder
    stopping: threading.Event
    """Set when clients are to finish what they have begun."""

    def source(self, name: str) -> random.Random:
        """The decisions of one client, which depend on the seed and its name alone."""
        return random.Random(f"{self.seed}/{name}")

    def settings(self, **more: Any) -> dict[str, Any]:
        """For a client of librdkafka that comes back soon after a broker does."""
        return {
            "bootstrap.servers": self.bootstrap,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        } | {
            name if name.endswith("_cb") else name.replace("_", "."): value
            for name, value in more.items()
        }


class Worker:
    """A client in a thread; subclasses say what it does until the run stops."""

    def __init__(self, run: Run, name: str) -> None:
        self.run = run
        self.name = name
        self.source = run.source(name)
        self.record = run.recorder.add
        self.failure: Exception | None = None
        """What ended the work too early."""
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def work(self) -> None:
        """Do something until the run stops."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Whether it has finished within this time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stopped(self) -> bool:
        """Whether to finish."""
        return self.run.stopping.is_set()

    def pause(self, longest: float) -> None:
        """Do nothing for a while, but not beyond the end of the run."""
        self.run.stopping.wait(self.source.uniform(0, longest))

    def _guarded(self) -> None:
        try:
            self.work()
        except Exception as failure:
            self.failure = failure
