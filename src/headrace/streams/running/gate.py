"""A gate that every batch goes through, so that a run can end between two of them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Closed(Exception):
    """No further batch begins; the one that was to begin is run when the flow runs again."""


class BatchGate:
    """Lets batches in until it is closed; closing waits for the one that is inside."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._inside: int | None = None
        self._closed = False
        self.entered: int | None = None
        """The last batch that began."""

    @contextmanager
    def batch(self, number: int) -> Iterator[None]:
        """Be inside with a batch."""
        with self._change:
            if self._closed:
                raise Closed(f"batch {number} was not begun")
            self._inside = self.entered = number
        try:
            yield
        finally:
            with self._change:
                self._inside = None
                self._change.notify_all()

    def close(self) -> None:
        """Let no more batches in, and wait until the one inside is done."""
        with self._change:
            self._closed = True
            self._change.wait_for(lambda: self._inside is None)
