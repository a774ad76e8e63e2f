"""The broker's partitions and group offsets, as the transaction coordinator needs them."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.transactions.participants import OpenTransaction, Told
from headrace.records import Marker

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore


class BrokerParticipants:
    """Hands what the coordinator decides on to partitions and journals."""

    def __init__(self, core: "BrokerCore") -> None:
        self._core = core

    def secure_decision(self, told: Told) -> None:
        """Tell once the journal of transactions is as safe as the broker's policy demands."""
        self._core.secure(self._core.transaction_store.journal, told)

    def mark(self, where: TopicPartition, marker: Marker, told: Told) -> int | None:
        """Append a marker to a partition, unless that is gone."""
        partition = self._core.partition(*where)
        return None if partition is None else partition.append_marker(marker, told)

    def reveal(self, where: TopicPartition, marker_offset: int) -> None:
        """Show readers of committed records the end of a transaction."""
        partition = self._core.partition(*where)
        if partition is not None:
            partition.reveal(marker_offset)

    def end_offsets(self, producer_id: int, commit: bool, told: Told) -> None:
        """Write down what becomes of the offsets that a transaction has sent."""
        self._core.offsets.end_pending(producer_id, commit=commit)
        self._core.secure(self._core.offsets.journal, told)

    def reveal_offsets(self, producer_id: int, commit: bool) -> None:
        """Put the offsets that a transaction has sent into force, or forget them."""
        self._core.offsets.reveal_pending(producer_id, commit=commit)

    def producers_with_offsets(self) -> Collection[int]:
        """The producers that have sent offsets which are neither in force nor forgotten yet."""
        return self._core.offsets.pending_producers()

    def open_transactions(self) -> Iterator[OpenTransaction]:
        """Every transaction that is open in any partition."""
        for partition in self._core.partitions():
            for producer_id in partition.log.transactions.open:
                yield OpenTransaction(
                    TopicPartition(partition.topic, partition.index),
                    producer_id,
                    partition.log.producers.epoch(producer_id),
                )
