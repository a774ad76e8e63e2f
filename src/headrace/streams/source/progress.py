"""Telling a consumer group how far a query has got, for those who watch lag.

Spark's checkpoint decides where a query goes on; what the group knows is for people and tools. So
nothing here may delay or fail a batch.
"""

import logging
import threading
from collections.abc import Mapping

from headrace.errors import HeadraceError
from headrace.kafka import Partition
from headrace.kafka.connection import Connection
from headrace.kafka.raw_positions import commit

_LAST_SECONDS = 5.0
"""How long the last commit may take when a query stops."""

logger = logging.getLogger(__name__)


class Progress:
    """Commits a query's offsets to a group, in a thread of its own; only the newest count."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._waiting: Mapping[Partition, int] | None = None
        self._told: Mapping[Partition, int] = {}
        self._failed = False
        self._closed = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="headrace-progress", daemon=True)
        self._thread.start()

    def tell(self, offsets: Mapping[Partition, int]) -> None:
        """The query has read up to here; returns at once."""
        with self._change:
            if offsets != self._told:
                self._waiting = self._told = dict(offsets)
                self._change.notify()

    def close(self) -> None:
        """Tell the last offsets, if that does not take long."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join(_LAST_SECONDS)

    def _run(self) -> None:
        while (offsets := self._next()) is not None:
            try:
                if offsets:
                    commit(self._connection, self._group, offsets)
                self._failed = False
            except HeadraceError as error:
                if not self._failed:
                    logger.warning("the query goes on, but its group is not up to date: %s", error)
                self._failed = True

    def _next(self) -> Mapping[Partition, int] | None:
        with self._change:
            self._change.wait_for(lambda: self._waiting is not None or self._closed)
            offsets, self._waiting = self._waiting, None
            return offsets
