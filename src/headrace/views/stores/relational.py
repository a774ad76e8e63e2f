"""What stores with SQL and transactions have in common.

The positions of lanes are the table `headrace_positions`. A write is one transaction: the row of
its lane is locked and its epoch compared, the rows change, the position changes. What a database
refuses is found by halves, between savepoints, so that only the guilty rows are left out.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final

from headrace.clock import SystemClock
from headrace.views.stores.changes import Chunk
from headrace.views.stores.contract import (
    VERSION,
    Claim,
    Lane,
    Position,
    Refusal,
    Refuse,
    Shape,
)
from headrace.views.stores.errors import ClaimLost, ColumnsRefused
from headrace.views.stores.kinds import Kind, kind_of

POSITIONS: Final = "headrace_positions"
"""The table in which a database keeps how far its lanes have got."""

SAVEPOINT: Final = "headrace_chunk"


class RelationalSession(ABC):
    """A connection to a database; what differs from one to the other is below the line."""

    mark: ClassVar[str] = "%s"
    """What stands for a value in a statement."""

    locking: ClassVar[str] = ""
    """What is added to a SELECT so that nobody else changes its rows meanwhile."""

    def __init__(self) -> None:
        self._prepared: dict[str, Shape] = {}
        self._keeps_positions = False

    def prepare(self, shape: Shape) -> None:
        """See `Session`; what was prepared before in this session is believed to be there."""
        if self._prepared.get(shape.table) == shape:
            return
        for field in shape.columns:
            kind_of(field)
        with self._transaction():
            self._lock_schema(shape.table)
            present = self._columns(shape.table)
            if not present:
                self._create(shape)
            else:
                self._evolve(shape, present)
        self._prepared[shape.table] = shape

    def position(self, lane: Lane) -> Position | None:
        """See `Session`."""
        self._keep_positions()
        with self._transaction():
            found = self._run(
                self._filled(
                    f"SELECT position, note FROM {POSITIONS} WHERE writer = ? AND place = ?"
                ),
                lane.writer,
                lane.place,
            )
        return _position(found[0]) if found else None

    def claim(self, lane: Lane) -> Claim:
        """See `Session`."""
        self._keep_positions()
        with self._transaction():
            self._run(
                self._filled(self._claiming()),
                lane.writer,
                lane.place,
                VERSION,
                SystemClock().now_ms(),
            )
            ((epoch, *found),) = self._run(
                self._filled(
                    f"SELECT epoch, position, note FROM {POSITIONS} WHERE writer = ? AND place = ?"
                ),
                lane.writer,
                lane.place,
            )
        return Claim(lane, int(epoch), _position(found))

    def apply(
        self,
        claim: Claim,
        position: Position,
        shape: Shape | None,
        chunks: Iterable[Chunk],
        refuse: Refuse,
    ) -> None:
        """See `Session`."""
        lane = claim.lane
        with self._transaction():
            self._require(claim)
            if shape is not None:
                refused = self._change(shape, chunks)
                if refused:
                    refuse(sorted(refused))
            self._run(
                self._filled(
                    f"UPDATE {POSITIONS} SET position = ?, note = ?, changed = ? "
                    "WHERE writer = ? AND place = ?"
                ),
                position.number,
                position.note,
                SystemClock().now_ms(),
                lane.writer,
                lane.place,
            )

    def _require(self, claim: Claim) -> None:
        found = self._run(
            self._filled(
                f"SELECT epoch FROM {POSITIONS} WHERE writer = ? AND place = ?{self.locking}"
            ),
            claim.lane.writer,
            claim.lane.place,
        )
        if not found or int(found[0][0]) != claim.epoch:
            raise ClaimLost(claim.lane.writer, claim.lane.place)

    def _change(self, shape: Shape, chunks: Iterable[Chunk]) -> list[Refusal]:
        return [refusal for chunk in chunks for refusal in self._changed(shape, chunk)]

    def _changed(self, shape: Shape, chunk: Chunk) -> Iterator[Refusal]:
        """Apply a chunk, or what of it the database takes."""
        reason = self._attempt(shape, chunk)
        if reason is None:
            return
        if chunk.rows == 1:
            yield Refusal(chunk.number, reason)
            return
        for half in chunk.halves():
            yield from self._changed(shape, half)

    def _attempt(self, shape: Shape, chunk: Chunk) -> str | None:
        """Apply a chunk, or nothing of it and tell why."""
        self._run(f"SAVEPOINT {SAVEPOINT}")
        try:
            if chunk.deletes.num_rows:
                self._delete(shape, chunk)
            if chunk.upserts.num_rows:
                self._upsert(shape, chunk)
        except Exception as error:
            reason = self._refusal(error)
            if reason is None:
                raise
            self._run(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
            return reason
        self._run(f"RELEASE SAVEPOINT {SAVEPOINT}")
        return None

    def _keep_positions(self) -> None:
        if not self._keeps_positions:
            with self._transaction():
                self._lock_schema(POSITIONS)
                self._run(self._positions_table())
            self._keeps_positions = True

    def _create(self, shape: Shape) -> None:
        columns = [
            f"{self._quoted(field.name)} {self._type(field, key=field.name in shape.key)}"
            + (" NOT NULL" if field.name in shape.key else "")
            for field in shape.columns
        ]
        if shape.key:
            columns.append(f"PRIMARY KEY ({self._names(shape.key)})")
        self._run(f"CREATE TABLE {self._quoted_table(shape.table)} ({', '.join(columns)})")

    def _evolve(self, shape: Shape, present: dict[str, str]) -> None:
        for name in shape.key:
            if name not in present:
                raise ColumnsRefused(
                    f"The table {shape.table} has no column {name}, by which rows are told apart. "
                    "Write to another table, or choose a key that it has."
                )
        for field in shape.columns:
            if field.name not in present:
                self._run(
                    f"ALTER TABLE {self._quoted_table(shape.table)} "
                    f"ADD COLUMN {self._quoted(field.name)} {self._type(field, key=False)}"
                )
            elif not self._holds(present[field.name], field):
                wanted = self._type(field, key=False)
                raise ColumnsRefused(
                    f"The column {field.name} of {shape.table} is {present[field.name]} there, "
                    f"which does not hold every {kind_of(field)}; change it to {wanted}, or cast "
                    f"it in what you write."
                )
        if shape.key and not self._is_unique(shape):
            raise ColumnsRefused(
                f"Nothing says that {', '.join(shape.key)} is unique in {shape.table}, so rows "
                f"cannot be replaced by key. Run: CREATE UNIQUE INDEX ON "
                f"{self._quoted_table(shape.table)} ({self._names(shape.key)})"
            )

    def _names(self, names: Sequence[str]) -> str:
        return ", ".join(map(self._quoted, names))

    def _filled(self, sql: str) -> str:
        """A statement with the marks of this driver."""
        return sql.replace("?", self.mark)

    def _claiming(self) -> str:
        """Make the row of a lane, or raise its epoch."""
        return (
            f"INSERT INTO {POSITIONS} (writer, place, version, changed, epoch) "
            f"VALUES (?, ?, ?, ?, 1) "
            f"ON CONFLICT (writer, place) DO UPDATE SET epoch = {POSITIONS}.epoch + 1"
        )

    def _same_key(self, shape: Shape) -> str:
        """The condition that a row `t` of a table has the key of a row `s`."""
        return " AND ".join(
            f"t.{self._quoted(name)} = s.{self._quoted(name)}" for name in shape.key
        )

    def _lock_schema(self, table: str) -> None:  # noqa: B027 - most transactions do that
        """Let nobody else of ours make or change this table meanwhile, if transactions do not."""

    def _quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def _quoted_table(self, table: str) -> str:
        return self._quoted(table)

    # Here begins what each database does in its own way.

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]:
        """A block that is committed at its end, or undone if it raises; then errors are ours."""

    @abstractmethod
    def _run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement; its rows, if it has any."""

    @abstractmethod
    def _positions_table(self) -> str:
        """The statement that makes the table of positions unless it is there."""

    @abstractmethod
    def _columns(self, table: str) -> dict[str, str]:
        """The columns that a table has, with their types; empty if there is none."""

    @abstractmethod
    def _is_unique(self, shape: Shape) -> bool:
        """Whether a table has no two rows with the same key."""

    @abstractmethod
    def _type(self, field: Any, *, key: bool) -> str:
        """The type of a column that is made for rows like these."""

    @abstractmethod
    def _holds(self, present: str, field: Any) -> bool:
        """Whether a column of a type takes such values without changing them."""

    @abstractmethod
    def _upsert(self, shape: Shape, chunk: Chunk) -> None:
        """Write rows, in place of those with the same key if there is one."""

    @abstractmethod
    def _delete(self, shape: Shape, chunk: Chunk) -> None:
        """Delete the rows of keys."""

    @abstractmethod
    def _refusal(self, error: Exception) -> str | None:
        """Why a row is refused, if that is what an error says; None for all others."""


def assignments(shape: Shape, quoted: Any, source: str) -> str:
    """What becomes of the columns of a row that is there already; empty if all are the key's."""
    return ", ".join(f"{quoted(name)} = {source.format(quoted(name))}" for name in shape.others)


def sql_type(field: Any, types: dict[Kind, str]) -> str:
    """The type of a column, by the table of a database."""
    kind = kind_of(field)
    if kind is Kind.DECIMAL and "{" in types[kind]:
        return types[kind].format(field.type.precision, field.type.scale)
    return types[kind]


def _position(found: Sequence[Any]) -> Position | None:
    number, note = found
    return None if number is None else Position(int(number), note)
