"""How knowledge of time travels with the rows, and where a bucket keeps it.

Every task that packs rows asks the watermark what it can tell from them: bounds, one for each
source of time, such as a topic partition or a producer. They go to every bucket, also to those that
get no rows, and arrive there merged: of each source the largest bound. The bucket's watermark then
says how far time has come, with what it remembered of the batches before.

Only bounds travel, so what is known besides has to be said as one: a source that has left has a
bound that no time reaches, and the time of the batch is a source of its own.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from headrace.streams.plan import CONTROL

if TYPE_CHECKING:
    import polars as pl

CLOCK: Final = "clock"
"""The name of the bound that is the time of the batch. Operators find it among their events, as one
row of one column of this name, if the watermark tells it."""


class Watermark(Protocol):
    """How far event time has come, told from what passes. Pickled to the workers."""

    def observe(self, source: str, events: "pl.DataFrame") -> Mapping[str, int]:
        """Bounds that some events of an input give, before `Operator.prepare` has seen them.

        Among them are the control rows of sources, which the operator does not see.
        """
        ...

    def advance(self, memory: str, bounds: Mapping[str, int]) -> tuple[str, int | None]:
        """What to remember from now on, and the watermark in microseconds; None if there is none.

        `memory` is what this returned after the batch before, and empty at first. The watermark
        must not be smaller than the one before. The same arguments must give the same answer.
        """
        ...


def without_control(events: "pl.DataFrame") -> "pl.DataFrame":
    """The events alone, without the rows that only tell of time."""
    if CONTROL not in events.columns:
        return events
    return events.filter(events[CONTROL].is_null()).drop(CONTROL)


def merged(bounds: "list[Mapping[str, int]]") -> dict[str, int]:
    """Of every source the largest bound, in an order that does not depend on the tasks'.

    >>> merged([{"b": 3}, {"a": 5, "b": 2}])
    {'a': 5, 'b': 3}
    """
    found: dict[str, int] = {}
    for each in bounds:
        for source, bound in each.items():
            found[source] = max(bound, found.get(source, bound))
    return dict(sorted(found.items()))
