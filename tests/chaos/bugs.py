"""Things that a broker can do wrong on purpose, to see that the checker notices.

Each function changes the classes of the process that it is called in.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from headrace.broker.participants import BrokerParticipants
from headrace.log.errors import LogError
from headrace.log.partition import PartitionLog
from headrace.log.producers import ProducerStates
from headrace.log.segment import Segment


def acknowledge_before_writing() -> None:
    """Answer producers at once, and write some time later."""
    write = Segment.write

    def write_later(self: Segment, batch: Any) -> None:
        copy, position = bytes(batch), self.size

        def really() -> None:
            time.sleep(0.2)
            if self.active is not None:
                self.disk.pwrite(self.active.handle.descriptor, copy, position)

        if position:
            threading.Thread(target=really, daemon=True).start()
        else:
            write(self, batch)

    Segment.write = write_later  # type: ignore[method-assign]


def forget_producers() -> None:
    """Take every batch for a new one, retries included."""
    ProducerStates.check = lambda self, header: None  # type: ignore[method-assign]


def forget_aborts() -> None:
    """Do not tell readers which transactions were aborted."""
    PartitionLog.aborted_transactions = lambda self, first, end: []  # type: ignore[method-assign]


def serve_unstable_records() -> None:
    """Let readers of committed records see what no transaction has committed yet."""
    PartitionLog.last_stable_offset = property(  # type: ignore[assignment, method-assign]
        lambda self: self.high_watermark
    )


def skip_markers() -> None:
    """Take a transaction for ended in a partition without writing that there."""
    mark = BrokerParticipants.mark

    def pretend(
        self: Any, where: Any, marker: Any, told: Callable[[LogError | None], None]
    ) -> int | None:
        if where.partition != 1:
            return mark(self, where, marker, told)
        told(None)
        return None

    BrokerParticipants.mark = pretend  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    "acknowledge-before-writing": acknowledge_before_writing,
    "forget-aborts": forget_aborts,
    "forget-producers": forget_producers,
    "serve-unstable-records": serve_unstable_records,
    "skip-markers": skip_markers,
}
"""All of them, by the name that the command line knows."""
