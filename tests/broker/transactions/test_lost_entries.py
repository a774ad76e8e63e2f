"""A power loss that takes the coordinator's last entries and leaves what was written under them.

Since KIP-890 a batch itself adds its partition to the transaction, and begins one if need be. The
coordinator's entry and the batch are then synced side by side, in any order.
"""

from random import Random
from typing import Any

import pytest

from headrace.broker.groups.entries import Committed
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.state import Identity, TransactionState
from headrace.log import Flush
from tests.broker.transactions.simulation import (
    GROUP,
    PARTITIONS,
    TXN,
    TransactionSimulation,
    new_disk,
)

FIRST, SECOND = PARTITIONS[:2]


class Unlucky(Random):
    """Chooses the power loss that leaves nothing but what was synced."""

    def choice(self, seq: Any) -> Any:
        return seq[0] if isinstance(seq[0], dict) else min(seq)


@pytest.fixture
def broker() -> TransactionSimulation:
    return TransactionSimulation(new_disk())


async def restarted(broker: TransactionSimulation) -> TransactionSimulation:
    again = TransactionSimulation(broker.disk.after_power_loss(Unlucky()), flush=broker.flush)
    await again.coordinator.recover()
    return again


def produce_at_once(broker: TransactionSimulation, identity: Identity, value: bytes) -> None:
    """Write a batch that is on the disk before the entry that adds its partition."""
    broker.coordinator.add_partitions(TXN, identity, [FIRST])
    broker.produce(TXN, identity, FIRST, 0, value)


async def test_a_decision_does_not_end_the_transaction_after_it(
    broker: TransactionSimulation,
) -> None:
    identity = await broker.initialize()
    broker.add(TXN, identity, FIRST)
    broker.produce(TXN, identity, FIRST, 0, b"committed")
    identity = await broker.end(TXN, identity, commit=True, raises=True)
    produce_at_once(broker, identity, b"undecided")

    again = await restarted(broker)

    assert again.committed(FIRST) == [b"committed"]
    assert not list(again.open_transactions())


async def test_nobody_goes_on_with_a_transaction_of_which_a_part_was_aborted(
    broker: TransactionSimulation,
) -> None:
    identity = await broker.initialize()
    produce_at_once(broker, identity, b"aborted")

    again = await restarted(broker)

    assert again.committed(FIRST) == []
    # A retry would be taken for a duplicate of what does not count any more.
    with pytest.raises(TransactionError, match="another instance took over or"):
        produce_at_once(again, identity, b"aborted")
    renewed = await again.initialize(claimed=identity)
    produce_at_once(again, renewed, b"committed")
    await again.end(TXN, renewed, commit=True, raises=True)
    assert again.committed(FIRST) == [b"committed"]


async def test_the_rest_of_such_a_transaction_is_aborted_with_it(
    broker: TransactionSimulation,
) -> None:
    identity = await broker.initialize()
    broker.add(TXN, identity, SECOND)
    broker.produce(TXN, identity, SECOND, 0, b"known")
    produce_at_once(broker, identity, b"unknown")

    again = await restarted(broker)

    assert again.coordinator.describe(TXN).state is TransactionState.COMPLETE_ABORT
    assert not list(again.open_transactions())
    with pytest.raises(TransactionError, match="no transaction to commit"):
        await again.end(TXN, identity, commit=True, raises=True)
    assert again.committed(SECOND) == []


async def test_a_producer_whose_epoch_was_lost_does_not_get_it_again(
    broker: TransactionSimulation,
) -> None:
    await broker.initialize()
    broker.flush = Flush.OS
    identity = await broker.initialize()
    broker.flush = Flush.ACK
    produce_at_once(broker, identity, b"lost")

    again = await restarted(broker)

    renewed = await again.initialize()
    assert renewed.producer_id == identity.producer_id
    assert renewed.epoch > identity.epoch
    produce_at_once(again, renewed, b"new")
    await again.end(TXN, renewed, commit=True, raises=True)
    assert again.committed(FIRST) == [b"new"]


async def test_offsets_of_a_transaction_that_nobody_leads_do_not_count(
    broker: TransactionSimulation,
) -> None:
    identity = await broker.initialize()
    broker.coordinator.add_group(TXN, identity, GROUP)
    offsets = {FIRST: Committed(7, -1, "", 0)}
    broker.offsets.send(GROUP, identity.producer_id, offsets)
    broker.offsets.journal.flush()

    again = await restarted(broker)

    assert not again.offsets.pending(GROUP)
    identity = await again.initialize()
    again.send_offset(TXN, identity, SECOND, 8)
    await again.end(TXN, identity, commit=True, raises=True)
    assert list(again.offsets.fetch(GROUP)) == [SECOND]
