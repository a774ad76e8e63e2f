"""Joins a key at a time: what one writes with Python's `transformWithState` if Spark has no join.

Each is what its documentation leads to: lists, maps and values of the state, and no more of them
read or written than a batch needs.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

LEFT = "left"
RIGHT = "right"


class PairsByRow(StatefulProcessor):
    """Right events that come up to ten seconds after a left one: two lists, and timers."""

    BOUND = 10

    def init(self, handle: Any) -> None:
        """Called once per task."""
        self._handle = handle
        self._kept = {
            side: handle.getListState(side, "v bigint, at double") for side in (LEFT, RIGHT)
        }

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timer_values: Any
    ) -> Iterator[Row]:
        """Called once per key."""
        new: dict[str, list[Any]] = {LEFT: [], RIGHT: []}
        for row in rows:
            new[row.side].append((row.v, row.at.timestamp()))
        old = {side: list(kept.get()) for side, kept in self._kept.items()}
        for v, at in new[LEFT]:
            yield from self._pairs(key[0], [(v, at)], [*old[RIGHT], *new[RIGHT]])
        yield from self._pairs(key[0], old[LEFT], new[RIGHT])
        both = {side: [*old[side], *new[side]] for side in new}
        self._keep(both, timer_values.getCurrentWatermarkInMs())
        last = max(at for each in new.values() for _, at in each)
        self._handle.registerTimer(int((last + self.BOUND) * 1000) + 1)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Called when the last events of a key may be over."""
        kept = {side: list(each.get()) for side, each in self._kept.items()}
        self._keep(kept, timerValues.getCurrentWatermarkInMs())
        return iter(())

    def close(self) -> None:
        """Nothing is held."""

    def _pairs(self, key: int, lefts: list[Any], rights: list[Any]) -> Iterator[Row]:
        for v, at in lefts:
            for other, later in rights:
                if at <= later <= at + self.BOUND:
                    yield Row(k=key, v=v, at=at, v_right=other, at_right=later)

    def _keep(self, events: dict[str, list[Any]], watermark: int) -> None:
        bounds = {LEFT: watermark / 1000 - self.BOUND, RIGHT: watermark / 1000}
        for side, rows in events.items():
            if kept := [(v, at) for v, at in rows if at >= bounds[side]]:
                self._kept[side].put(kept)
            else:
                self._kept[side].clear()


class EnrichmentByRow(StatefulProcessor):
    """Events with the row of their key: one value."""

    def init(self, handle: Any) -> None:
        """Called once per task."""
        self._row = handle.getValueState("row", "name string, city bigint")

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timer_values: Any
    ) -> Iterator[Row]:
        """Called once per key; changes of the table come first, as they do with Headrace."""
        both = list(rows)
        changes = [row for row in both if row.v is None]
        if changes:
            self._row.update((changes[-1].name, changes[-1].city))
        events = [row for row in both if row.v is not None]
        if not events:
            return
        name, city = self._row.get() or (None, None)
        for row in events:
            yield Row(k=key[0], v=row.v, name=name, city=city)

    def close(self) -> None:
        """Nothing is held."""


class TableJoinByRow(StatefulProcessor):
    """Orders with their customers, kept right when either changes: a map and a value."""

    def init(self, handle: Any) -> None:
        """Called once per task."""
        self._orders = handle.getMapState("orders", "id bigint", "price bigint")
        self._city = handle.getValueState("city", "city bigint")

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timer_values: Any
    ) -> Iterator[Row]:
        """Called once per customer; tells the rows of the join that have become others."""
        both = list(rows)
        customers = [row for row in both if row.id is None]
        before = self._city.get()
        city = (customers[-1].city,) if customers else before
        if city != before:
            self._city.update(city)
        orders = {row.id: row for row in both if row.id is not None}
        for row in orders.values():
            self._orders.updateValue((row.id,), (row.price,))
        if city is None:
            return
        if city != before:
            changed = [(order, price) for (order,), (price,) in self._orders.iterator()]
        else:
            changed = [(row.id, row.price) for row in orders.values()]
        for order, price in changed:
            yield Row(customer=key[0], id=order, price=price, city=city[0])

    def close(self) -> None:
        """Nothing is held."""
