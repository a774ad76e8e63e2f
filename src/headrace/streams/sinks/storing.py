"""Rows into stores, exactly once: a lane per place, and the batch's number its position."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from headrace.settings import KafkaSettings
from headrace.streams.sinks.contract import (
    Batch,
    Fenced,
    Outcome,
    Overtaken,
    PartitionsChanged,
    Place,
    Written,
)
from headrace.streams.sinks.refusing import Refusing
from headrace.views.stores import (
    ClaimLost,
    Lane,
    Position,
    PositionsLost,
    Refusal,
    Shape,
    Store,
)

if TYPE_CHECKING:
    import pyarrow as pa

_BATCHES: Final = "batches"
"""The place of a query whose position is the batch that was begun last."""

_PARTITIONS: Final = "partitions="


@dataclass(frozen=True, slots=True)
class StoreSink:
    """Keeps rows in a table of a store.

    With a key, a row replaces the one with the same key, and one whose column `_deleted` is true
    deletes it; without, rows are added. The table is made if it is missing, and columns that it
    lacks are added.
    """

    store: Store
    table: str
    key: tuple[str, ...] = ()
    kafka: KafkaSettings | None = None
    dead_letters: str | None = None
    """The topic for rows that the store refuses; without one, such a row is an error."""

    def begin(self, batch: Batch) -> None:
        """Note how many partitions the batch has."""
        from headrace.views.stores.sessions import session_of

        lane = Lane(batch.query, _BATCHES)
        with session_of(self.store) as session:
            claim = session.claim(lane)
            if claim.position is not None:
                _require_next(batch, claim.position)
                if claim.position.number == batch.id:
                    return
            position = _position(batch.id, batch.partitions)
            try:
                session.apply(claim, position, None, (), _refuse_nothing)
            except ClaimLost as error:
                raise Fenced(str(error)) from error

    def write(self, place: Place, rows: "Iterator[pa.RecordBatch]") -> Written:
        """Write the rows of a place in one step of the store."""
        from headrace.views.stores.sessions import session_of
        from headrace.views.stores.staging import Staged

        first = next((each for each in rows if each.num_rows), None)
        if first is None:
            return Written(Outcome.WRITTEN)
        with session_of(self.store) as session:
            claim = session.claim(Lane(place.query, str(place.partition)))
            if (before := claim.position) is not None and before.number >= place.batch_id:
                return _written_before(place, before)
            shape = self._shape(first.schema)
            session.prepare(shape)
            with Staged(chain((first,), rows), self.key) as staged:
                refusing = Refusing(place, staged, self.key, self.kafka, self.dead_letters)
                refusing.refuse(staged.keyless)
                position = _position(place.batch_id, place.partitions)
                try:
                    session.apply(claim, position, shape, staged.chunks(), refusing.refuse)
                except ClaimLost as error:
                    raise Fenced(str(error)) from error
                refused = refusing.count
                return Written(Outcome.WRITTEN, staged.rows - refused, staged.bytes, refused)

    def beside(self, version: str) -> "StoreSink":
        """The same for another version of the flow: a table of its own."""
        return replace(self, table=f"{self.table}_{version}")

    def _shape(self, columns: "pa.Schema") -> Shape:
        from headrace.views.stores.changes import DELETED

        place = columns.get_field_index(DELETED) if self.key else -1
        return Shape(self.table, columns if place < 0 else columns.remove(place), self.key)


def _position(batch_id: int, partitions: int) -> Position:
    return Position(batch_id, f"{_PARTITIONS}{partitions}")


def _written_before(place: Place, before: Position) -> Written:
    if before.number > place.batch_id:
        return Written(Outcome.OVERTAKEN)
    _require_same_partitions(place.query, place.batch_id, place.partitions, before)
    return Written(Outcome.REPEATED)


def _require_next(batch: Batch, before: Position) -> None:
    if before.number > batch.id:
        raise Overtaken(batch.query, batch.id)
    if before.number == batch.id:
        _require_same_partitions(batch.query, batch.id, batch.partitions, before)
    elif before.number < batch.id - 1:
        raise PositionsLost(
            f"{batch.query} is at batch {batch.id}, but the store has only heard of batch "
            f"{before.number}: it has lost what it acknowledged since, or was replaced by an older "
            "copy. Write to a new table with a new checkpoint, or restore the store."
        )


def _require_same_partitions(query: str, batch_id: int, partitions: int, before: Position) -> None:
    stored = int(before.note.removeprefix(_PARTITIONS))
    if stored != partitions:
        raise PartitionsChanged(query, batch_id, stored, partitions)


def _refuse_nothing(refused: Sequence[Refusal]) -> None:
    raise AssertionError("a position cannot be refused")
