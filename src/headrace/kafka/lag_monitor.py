"""The lag monitor: one thread that measures and tells whoever wants to know, until it is stopped.

A history is told by `history.add`, alarms are raised by `delivery.send(alerts.judge(sample))`.
"""

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Self

from headrace.errors import HeadraceError
from headrace.kafka.lag import LagMeter, LagSample

log = logging.getLogger("headrace.lag")


class LagMonitor:
    """Measures at intervals; what goes wrong is logged once and tried again.

    `step` is one measurement and may be called instead of starting the thread, never beside it.
    The listeners are told of every measurement, in order and in the thread.
    """

    def __init__(
        self,
        meter: LagMeter,
        *,
        groups: Collection[str] = (),
        interval_ms: int = 10_000,
        listeners: Sequence[Callable[[LagSample], None]] = (),
    ) -> None:
        self._meter = meter
        self._groups = groups
        self._interval = interval_ms / 1000
        self._listeners = listeners
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: HeadraceError | None = None
        """Why the last measurement failed; None if it did not."""

    def step(self) -> LagSample:
        """Measure once and tell the listeners; ClusterError if that is not possible."""
        sample = self._meter.measure(self._groups)
        for listener in self._listeners:
            listener(sample)
        return sample

    def start(self, *, at_once: bool = True) -> None:
        """Begin to measure in a thread of its own, at once or after the first interval."""
        self._thread = threading.Thread(
            target=self._run, args=(at_once,), name="headrace lag", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop, after the measurement that may be under way; safe to call more than once."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self, at_once: bool) -> None:
        pause = 0.0 if at_once else self._interval
        while not self._stopping.wait(pause):
            pause = self._interval
            try:
                self.step()
                self._note(None)
            except HeadraceError as error:
                self._note(error)
            except Exception:
                # A defect; but a monitor that has died in silence is worse than a noisy one.
                log.exception("lag is not measured, and the reason is a defect of Headrace")

    def _note(self, failure: HeadraceError | None) -> None:
        if failure is not None and self.failure is None:
            log.warning("lag is not measured: %s", failure)
        if failure is None and self.failure is not None:
            log.info("lag is measured again")
        self.failure = failure
