"""How a decided transaction becomes visible: all at once, and only when all of it is safe."""

import asyncio

import pytest

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.state import Identity
from tests.broker.transactions.simulation import (
    GROUP,
    PARTITIONS,
    TXN,
    TransactionSimulation,
    new_disk,
)

INPUT = TopicPartition("input", 0)


async def begun(broker: TransactionSimulation) -> Identity:
    """A producer with records in every partition and an offset in one transaction."""
    identity = await broker.initialize()
    broker.add(TXN, identity, *PARTITIONS)
    for where in PARTITIONS:
        broker.produce(TXN, identity, where, 0, b"value")
    broker.send_offset(TXN, identity, INPUT, 5)
    return identity


def seen(broker: TransactionSimulation) -> list[bool]:
    """What of the transaction shows: its records in each partition, and its offset."""
    records = [b"value" in broker.committed(where) for where in PARTITIONS]
    return [*records, INPUT in broker.offsets.fetch(GROUP)]


async def test_nothing_shows_until_everything_is_safe() -> None:
    broker = TransactionSimulation(new_disk(), deferred=True)
    identity = await begun(broker)
    ending = asyncio.ensure_future(broker.end(TXN, identity, commit=True, raises=False))
    await asyncio.sleep(0)
    steps = []
    while broker.waiting:
        assert seen(broker) == [False] * 4
        assert broker.offsets.pending(GROUP) == {INPUT}
        assert not ending.done()
        steps.append(len(broker.waiting))
        broker.sync_one()
    assert steps == [1, 4, 3, 2, 1], "the decision alone, then all the rest at once"
    assert seen(broker) == [True] * 4
    assert await ending == identity


async def test_an_abort_shows_nothing_and_frees_readers() -> None:
    broker = TransactionSimulation(new_disk())
    identity = await begun(broker)
    assert await broker.end(TXN, identity, commit=False, raises=True) == (0, identity.epoch + 1)
    assert seen(broker) == [False] * 4
    assert all(log.last_stable_offset == log.end_offset for log in broker.logs.values())
    assert not broker.offsets.pending(GROUP)


async def test_a_full_disk_holds_the_end_up_until_there_is_room() -> None:
    disk = new_disk()
    broker = TransactionSimulation(disk, deferred=True)
    identity = await begun(broker)
    ending = asyncio.ensure_future(broker.end(TXN, identity, commit=True, raises=False))
    await asyncio.sleep(0)
    with disk.full():
        while broker.sync_one():
            pass
        with pytest.raises(TransactionError, match="no space left"):
            await ending
        assert seen(broker) == [False] * 4
        with pytest.raises(TransactionError, match="still being ended"):
            broker.add(TXN, identity, *PARTITIONS)
    asked_again = asyncio.ensure_future(broker.end(TXN, identity, commit=True, raises=False))
    await asyncio.sleep(0)
    broker.timers.advance(1)
    while broker.sync_one():
        pass
    assert await asked_again == identity
    assert seen(broker) == [True] * 4


async def test_whoever_waits_when_the_broker_stops_is_told_to_ask_again() -> None:
    broker = TransactionSimulation(new_disk(), deferred=True)
    identity = await begun(broker)
    ending = asyncio.ensure_future(broker.end(TXN, identity, commit=True, raises=False))
    await asyncio.sleep(0)
    broker.coordinator.close()
    with pytest.raises(TransactionError, match="ask again"):
        await ending
    with pytest.raises(TransactionError, match="shutting down"):
        await broker.initialize()
