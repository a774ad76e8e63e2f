"""What a database has to do to be captured: the contract between the core and each database.

A `Source` is one database and what a capture wants of it. It makes and checks what it needs there,
opens its log as a `LogStream`, reads tables in chunks through `TableReader`s, and removes in the
end what it made. It knows nothing of Kafka, envelopes or snapshots' progress.

Three rules make delivery exactly once:

1. A stream opened at a position yields every transaction that committed behind it, once, whole and
   in commit order, and nothing else. `Commit.position` and `Reached.position` are such positions.
2. The database forgets its log only up to what was confirmed, and `confirm` is called only with
   positions that are stored together with the events before them.
3. A mark written by `TableReader.mark` appears in the stream as a `Watermark` at the place among
   the commits where it was written: what is read before it was written is not newer than what the
   stream has told when it comes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.capture.changes import Begin, Events, Position, Row, Table, TableName

_MEASURED = 100
_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Check:
    """What stands between a database and its capture, in plain words."""

    problems: tuple[str, ...] = ()
    """What must be done first, each with the statement that does it."""

    advice: tuple[str, ...] = ()
    """What works, but would work better otherwise."""


@dataclass(frozen=True, slots=True)
class LogDistance:
    """How far a capture is behind its database's log."""

    behind_bytes: int
    """Log that is written and not confirmed."""

    retained_bytes: int
    """Log that the database keeps for this capture, or for the oldest transaction it may need."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Which rows of a table a snapshot is about: those with `low` < key <= `high`.

    Keys are texts, one per column of the key, as the database writes them; None is unbounded.
    """

    low: tuple[str, ...] | None = None
    high: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a table in the order of its key, as they were at one moment."""

    table: Table
    rows: Sequence[Row]
    last: tuple[str, ...] | None
    """The key of the last row, to go on from; None if there were none."""

    complete: bool
    """Whether the range has no rows behind these."""

    size: int = 0
    """About how many bytes it takes."""

    unseen: frozenset[str] = field(default=frozenset())
    """Transactions that were under way for the chunk's reader.

    If the log told one of them before the chunk's low mark, its effects are in neither: the
    database writes a commit to its log a moment before others see it. Such a chunk is read again.
    """


def size_of(rows: Sequence[Row]) -> int:
    """About how many bytes rows take, from some of them."""
    step = max(len(rows) // _MEASURED, 1)
    measured = sum(
        len(value) if isinstance(value, str | bytes) else _NUMBER_BYTES
        for row in rows[::step]
        for value in row
    )
    return measured * step


class LogStream(Protocol):
    """A database's log from some position on; used by one thread."""

    @property
    def start(self) -> Position:
        """Where it began."""
        ...

    def read(self, seconds: float) -> Events:
        """What has come, waiting up to `seconds` for the first of it; empty if nothing did.

        A list may end within a transaction, which the next one continues. Idle time shows as
        `Reached`.
        """
        ...

    def confirm(self, position: Position) -> None:
        """Let the database forget what is before the position."""
        ...

    def close(self) -> None:
        """Leave; what was not confirmed comes again."""
        ...


class TableReader(Protocol):
    """A connection that reads tables for a snapshot; used by one thread."""

    def mark(self, mark: str) -> None:
        """Write a watermark into the log, committed when this returns."""
        ...

    def chunk(self, name: TableName, within: KeyRange, limit: int) -> Chunk:
        """Up to `limit` rows of the range, the lowest keys first, as of one moment from now."""
        ...

    def estimate(self, name: TableName) -> int:
        """About how many rows the table has."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


class Source(Protocol):
    """One database, and what a capture wants of it."""

    @property
    def connector(self) -> str:
        """What Debezium calls the kind of database: "postgresql", "mariadb", "mysql", "sqlite"."""
        ...

    @property
    def database(self) -> str:
        """The database's name."""
        ...

    @property
    def schema(self) -> str:
        """The schema of tables that are named without one."""
        ...

    def check(self) -> Check:
        """Look at settings, privileges and tables, and change nothing."""
        ...

    def prepare(self, resume: Position | None) -> Position | None:
        """Make what is missing; NotPrepared, with everything that is wrong, if that is refused.

        Returns the position from which the log is kept, if it is kept from now on, and None if it
        was before. Running it again changes nothing.

        With `resume`, a position that was reached before, the log must have been kept since then:
        PositionLost if it was not.
        """
        ...

    def give_up(self) -> None:
        """Have `prepare` wait no longer: it raises GivenUp; asked from another thread."""
        ...

    def extend(self) -> None:
        """Have the log tell tables, too, that match the capture's patterns by now.

        Asked from another thread than the stream's; NotPrepared if that is refused.
        """
        ...

    def tables(self) -> Sequence[Table]:
        """The tables that are captured, as they are now."""
        ...

    def open(self, position: Position | None) -> LogStream:
        """The log from a position on; from what was last confirmed, if None.

        Raises PositionLost if there is a gap behind the position, CaptureBusy if another process
        reads in our place.
        """
        ...

    def reader(self) -> TableReader:
        """A new connection for snapshots."""
        ...

    def distance(self) -> LogDistance:
        """How far behind we are; asked from another thread than the stream's.

        PositionLost if the database does not keep its log for us any more.
        """
        ...

    def drop(self) -> Sequence[str]:
        """Remove everything that a capture made in the database, and say what it was."""
        ...

    def close(self) -> None:
        """End the connections that are not a stream's or a reader's."""
        ...

    def database_of(self, name: TableName | None) -> str:
        """What Debezium's `source.db` says of an event, which may be about a table."""
        ...

    def sequence(self, begin: Begin | None, place: Any) -> str:
        """Debezium's `sequence` of an event, as JSON: a string, or null where it has none."""
        ...

    def origin(self, name: TableName | None, begin: Begin | None, place: Any) -> str:
        """What Debezium's `source` block says beyond what all databases do, in its order.

        It is JSON without the braces around it, such as `"table":"t","lsn":7`: there is one per
        change, and writing it directly takes a fraction of the time.

        Args:
            name: The table, if it is about one.
            begin: The transaction; None of a snapshot's rows.
            place: Where in the log the event was.
        """
        ...

    def origin_schema(self) -> Sequence[Mapping[str, Any]]:
        """The Kafka Connect fields of what `origin` gives, in the same order."""
        ...

    def transaction_id(self, begin: Begin) -> str:
        """The id that Debezium gives a transaction in its metadata."""
        ...
