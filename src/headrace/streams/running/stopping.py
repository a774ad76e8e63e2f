"""Ctrl-C and SIGTERM as a request to finish, and not as an interruption."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NOTHING_RUNS = "Told to stop; nothing was started."
_AGAIN_SECONDS = 0.02
"""After which a signal that came at a bad moment is heard again."""


class StoppedWhileStarting(KeyboardInterrupt):
    """A request that came while there was nothing to finish.

    A kind of KeyboardInterrupt, for which py4j leaves its connection in order.
    """


class StopRequest:
    """Whether a run has been told to stop, and by what."""

    def __init__(self) -> None:
        self.by: signal.Signals | None = None
        """The first signal that came."""

        self.starting = True
        """Whether nothing runs yet that could be finished, and the request interrupts."""

    def __bool__(self) -> bool:
        return self.by is not None

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.starting and _is_swallowed(frame):
            threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number)).start()
            return
        if self.by is not None:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        self.by = signal.Signals(number)
        if self.starting:
            # Whatever is being printed is not to be printed into, as print would.
            line = "\n" if sys.stderr.isatty() else ""
            os.write(2, f"{line}{_NOTHING_RUNS}\n".encode())
            raise StoppedWhileStarting


def _is_swallowed(frame: FrameType | None) -> bool:
    """Whether what is raised here would only be printed.

    While a process is forked, locks of the logging are taken and released by functions that cannot
    raise.
    """
    return frame is not None and frame.f_code.co_filename == logging.__file__


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Hear SIGINT and SIGTERM as a request; a second Ctrl-C interrupts as usual.

    As long as the request is `starting`, the first one raises StoppedWhileStarting.

    Only the main thread may handle signals; elsewhere nothing is heard.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, request._hear) for each in signals}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
