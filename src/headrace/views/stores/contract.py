"""What a store promises, so that what is written to it happens once whatever fails.

A *lane* is one writer's rows from one place, position after position: a topic's partition, whose
positions are offsets, or a place of a query, whose positions are the numbers of batches. A store
keeps for each lane the position that it has got to, and an epoch.

Formally, for one lane with the epoch `current` and the position `last`:

    claim()                    current += 1; tells current and last
    apply(epoch, n, changes)   epoch < current   changes nothing: ClaimLost
                               epoch = current   rows have changed and last = n, both or neither

Intuitively: whoever claims a lane reads where to go on, and from then on nobody who claimed it
before can write there. Since the position changes together with the rows, it never says more than
the rows do, nor less.

A store without transactions keeps a version with every key instead, and an older one never replaces
a newer one: then rows come one by one, and what was written in part is written again.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.views.stores.changes import Chunk

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1
"""Of what stores keep about lanes; written beside it."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The rows of one writer from one place, which come in order."""

    writer: str
    place: str


@dataclass(frozen=True, slots=True)
class Position:
    """How far a lane has got, and a word that its writer wants to find beside it."""

    number: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write a lane, until somebody else claims it."""

    lane: Lane
    epoch: int
    position: Position | None
    """Where the lane was when it was claimed; None if nothing was ever written."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as rows have it: its name, its columns, and those of them that tell rows apart.

    Without a key, rows are only ever added.
    """

    table: str
    columns: "pa.Schema"
    key: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[str, ...]:
        """The columns that are no part of the key."""
        return tuple(name for name in self.columns.names if name not in self.key)


class Refusal(NamedTuple):
    """A row that the store does not take: its number among all rows of a write, and why."""

    row: int
    reason: str


Refuse = Callable[[Sequence[Refusal]], None]
"""What is done about refused rows, before the others are committed; if it raises, none are."""


class Session(Protocol):
    """A connection to a store; used by one thread at a time.

    Every method raises StoreUnreachable if another try may help, and StoreRefused if none would.
    """

    def prepare(self, shape: Shape) -> None:
        """Make the table if it is missing, and add columns that it lacks; none is ever removed.

        Raises ColumnsRefused if a column is there in a type that cannot hold what comes.
        """
        ...

    def position(self, lane: Lane) -> Position | None:
        """How far a lane has got; None if nothing was ever written."""
        ...

    def claim(self, lane: Lane) -> Claim:
        """Take over a lane; whoever had it can write no more."""
        ...

    def apply(
        self,
        claim: Claim,
        position: Position,
        shape: Shape | None,
        chunks: Iterable[Chunk],
        refuse: Refuse,
    ) -> None:
        """Change rows and the position of a lane, in one step.

        Chunks are applied in order. Their rows are all there already: nobody is waited for while
        the store is held up. Without a shape it is the position alone that changes.

        Raises ClaimLost if somebody else has claimed the lane, and what `refuse` raises.
        """
        ...

    def alive(self) -> bool:
        """Whether it can still be used."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Store(Hashable, Protocol):
    """Where rows are kept. A description: frozen, equal to its like, and pickled to executors.

    The tests of this contract are `headrace.testing.store_contract.StoreContract`.
    """

    def session(self) -> Session:
        """A new connection."""
        ...
