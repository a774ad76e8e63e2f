"""What the store of a view promises.

A store has the rows of one view, how far its topic is applied, and the changes of the last time,
numbered. They change together: `apply` is one transaction, and whoever reads sees all of it or
nothing. The number of the last change is the store's *sequence*; together with the *handle*, which
is new whenever a store is begun anew, it names a state of the view for as long as there is history.

Batches end at sequences that are *boundaries*; a position is known for each of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeVar

from headrace.kafka.positions import Partition
from headrace.views.filters import Filter, Order
from headrace.views.materialized.description import ViewDescription
from headrace.views.materialized.records import Incoming

T = TypeVar("T")

FORMAT = 1
"""Of what stores keep; one of another version is built anew."""


class Change(NamedTuple):
    """One change of one row."""

    sequence: int
    key: str
    before: bytes | None
    after: bytes | None
    partition: int
    offset: int


class KeyedRow(NamedTuple):
    """A row as JSON, and the key it is found by."""

    key: str
    row: bytes


@dataclass(frozen=True, slots=True)
class StoreState:
    """Where a store is."""

    handle: str
    sequence: int = 0
    oldest: int = 0
    """The earliest sequence that changes are known since."""

    offsets: Mapping[int, int] = field(default_factory=dict)
    """The next offset of each partition of the topic."""

    complete: bool = False
    """Whether all that was in the topic, when the store was begun, has been applied."""

    rejected: int = 0
    """Records that said nothing about a row."""

    rejection: str = ""
    """Which was the last of them, and why."""

    columns: tuple[str, ...] = ()
    seen_ms: int = 0
    """When the end of the topic was last reached."""

    def position(self, topic: str) -> dict[Partition, int]:
        """What is reflected, as a position."""
        return {Partition(topic, number): offset for number, offset in self.offsets.items()}


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """What one transaction has done."""

    state: StoreState
    changes: tuple[Change, ...]
    """Empty if `history` was not kept, too."""

    history: bool = True
    """Whether the changes were written down; they are not while a long backlog is read."""


class Snapshot(Protocol):
    """A view at one moment."""

    @property
    def state(self) -> StoreState:
        """Where the store is at that moment."""
        ...

    def get(self, keys: Sequence[str]) -> list[KeyedRow]:
        """The rows of keys, where there are; in no order."""
        ...

    def select(
        self,
        wanted: Filter | None,
        order: Sequence[Order] = (),
        *,
        limit: int | None = None,
        after_key: str | None = None,
    ) -> list[KeyedRow]:
        """The first rows that a filter wants, in an order; those behind a key if that is given."""
        ...

    def count(self, wanted: Filter | None) -> int:
        """How many rows a filter wants."""
        ...

    def changes(self, after: int, until: int) -> list[Change]:
        """The changes behind a sequence, up to and including another, in their order."""
        ...

    def boundary(self, after: int, at_most: int) -> int:
        """The last boundary within so many changes behind a sequence, or else the next one."""
        ...


class Store(Protocol):
    """Keeps one view; written by one thread, and read by many."""

    def open(self, description: ViewDescription) -> StoreState:
        """What there is of the view; begins anew if there is nothing, or of something else.

        Raises:
            StoreDamaged: What is there cannot be read; `reset` would begin anew.
            StoreUnavailable: Its database does not answer.
        """
        ...

    def apply(
        self,
        incoming: Sequence[Incoming],
        offsets: Mapping[int, int],
        *,
        state: StoreState,
        history: bool = True,
    ) -> AppliedBatch:
        """Apply a batch to the store, which must be in `state`.

        The new state has what `state` says besides sequence and offsets.
        """
        ...

    def read(self, look: Callable[[Snapshot], T]) -> T:
        """What `look` finds; it sees one moment, and may be called again. From any thread."""
        ...

    def reset(self, description: ViewDescription, reason: str) -> StoreState:
        """Set aside what is there, and begin anew with another handle."""
        ...

    def drop(self) -> None:
        """Remove everything; the store is closed."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def changed(
    incoming: Sequence[Incoming], present: Mapping[str, bytes], sequence: int
) -> list[Change]:
    """The changes that a batch makes of rows that are `present`; what changes nothing is none."""
    rows: dict[str, bytes | None] = dict(present)
    found = []
    for key, row, partition, offset in incoming:
        before = rows.get(key)
        if before != row:
            sequence += 1
            found.append(Change(sequence, key, before, row, partition, offset))
            rows[key] = row
    return found


def applied_state(
    state: StoreState, count: int, offsets: Mapping[int, int], keep: int, *, history: bool
) -> StoreState:
    """The state after a batch of so many changes, up to these offsets.

    Of the changes before, about `keep` stay known: a good part is forgotten at a time.
    """
    sequence = state.sequence + count
    oldest = state.oldest
    if not history:
        oldest = sequence
    elif sequence - keep > oldest + keep // 8:
        oldest = sequence - keep
    return replace(state, sequence=sequence, oldest=oldest, offsets={**state.offsets, **offsets})
