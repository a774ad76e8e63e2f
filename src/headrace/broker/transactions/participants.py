"""What takes part in a transaction besides its coordinator: partitions and group offsets."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, Protocol

from headrace.broker.groups.entries import TopicPartition
from headrace.log.errors import LogError
from headrace.records import Marker

Told = Callable[[LogError | None], None]
"""Called once something is as safe as the flush policy demands, or with why it never will be."""


class OpenTransaction(NamedTuple):
    """A transaction as a partition's log knows it."""

    where: TopicPartition
    producer_id: int
    epoch: int


class Participants(Protocol):
    """Everything that a transaction changes, as its coordinator needs it.

    Who is told may be told before the call returns. What the disk refuses at once raises
    `LogError`, and nobody is told then.
    """

    def secure_decision(self, told: Told) -> None:
        """Tell once the coordinator's journal is safe as it is now."""
        ...

    def mark(self, where: TopicPartition, marker: Marker, told: Told) -> int | None:
        """Append a marker, and return its offset; None if there is no such partition any more."""
        ...

    def reveal(self, where: TopicPartition, marker_offset: int) -> None:
        """Show readers of committed records the end of a transaction."""
        ...

    def end_offsets(self, producer_id: int, commit: bool, told: Told) -> None:
        """Write down what becomes of the offsets that a producer's transaction has sent."""
        ...

    def reveal_offsets(self, producer_id: int, commit: bool) -> None:
        """Put the offsets that a producer's transaction has sent into force, or forget them."""
        ...

    def producers_with_offsets(self) -> Collection[int]:
        """The producers that have sent offsets which are neither in force nor forgotten yet."""
        ...

    def open_transactions(self) -> Iterable[OpenTransaction]:
        """Every transaction that is open in any partition."""
        ...
