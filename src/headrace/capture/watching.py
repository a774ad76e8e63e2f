"""What is looked at now and then beside the log: its size, and which tables there are."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from headrace.capture.changes import Table
from headrace.capture.errors import CaptureError, DatabaseUnreachable, LogRetained, NotPrepared
from headrace.capture.source import LogDistance, Source
from headrace.capture.state import fingerprint
from headrace.settings import CaptureSettings

_ALARM_SHARE: Final = 0.5
"""The share of the limit from which on the log that is kept is worth a warning."""

logger = logging.getLogger(__name__)


class Watch:
    """A thread that looks at the database while another one follows its log.

    Args:
        source: The database.
        settings: How often, and the limit.
        failed: Told what ends the capture.
    """

    def __init__(
        self,
        source: Source,
        settings: CaptureSettings,
        failed: Callable[[Exception], None],
    ) -> None:
        self.distance: LogDistance | None = None
        self._source = source
        self._settings = settings
        self._failed = failed
        self._over = threading.Event()
        self._found: Sequence[Table] | None = None
        self._seen: frozenset[tuple[str, int, str]] = frozenset()
        self._warned = ""
        self._thread = threading.Thread(target=self._watch, name="capture watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def new_tables(self) -> Sequence[Table] | None:
        """All tables, if there are others than before, or they look different; else None."""
        found, self._found = self._found, None
        return found

    def _watch(self) -> None:
        while not self._over.wait(self._settings.discovery_ms / 1000):
            try:
                self._look()
            except DatabaseUnreachable:
                # Whoever follows the log notices it too, and knows what to do.
                logger.debug("the database does not answer", exc_info=True)
            except CaptureError as error:
                self._failed(error)
                return

    def _look(self) -> None:
        self.distance = self._source.distance()
        self._mind_retained(self.distance.retained_bytes)
        try:
            self._source.extend()
        except NotPrepared as error:
            # What is captured already goes on, whatever is wrong with a new table.
            self._warn(str(error))
        tables = self._source.tables()
        seen = frozenset((str(each.name), each.native, fingerprint(each)) for each in tables)
        if seen != self._seen:
            self._seen, self._found = seen, tables

    def _mind_retained(self, retained: int) -> None:
        limit = self._settings.retained_limit
        if limit < 0:
            return
        if retained > limit:
            raise LogRetained(
                f"{self._source.database} keeps {retained:,} bytes of its log for the capture "
                f"{self._settings.called}, more than the {limit:,} that retained_limit allows. The "
                "capture has given up its place in the log, so that the database can remove it. "
                "Run it with --lost snapshot to read its tables anew."
            )
        if retained > limit * _ALARM_SHARE:
            self._warn(
                f"{self._source.database} keeps more than half of what retained_limit allows "
                f"of its log for the capture {self._settings.called}"
            )

    def _warn(self, text: str) -> None:
        if text != self._warned:
            self._warned = text
            logger.warning("%s", text)
