"""What the coordinator remembers, gives time to, and forgets."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.transactions import store as store_module
from headrace.broker.transactions.decisions import completed, ended, initialized
from headrace.broker.transactions.entries import Forgotten, UnreadableEntry, decode, encode
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.state import (
    LAST_EPOCH,
    Identity,
    TransactionRecord,
    TransactionState,
)
from tests.broker.transactions.simulation import (
    PARTITIONS,
    TIMEOUT_MS,
    TXN,
    TransactionSimulation,
    new_disk,
)

DAY_SECONDS = 24 * 60 * 60


@pytest.fixture
def broker() -> TransactionSimulation:
    return TransactionSimulation(new_disk())


def state_of(broker: TransactionSimulation) -> TransactionState:
    return broker.coordinator.describe(TXN).state


async def begun(broker: TransactionSimulation) -> Identity:
    identity = await broker.initialize()
    broker.add(TXN, identity, PARTITIONS[0])
    broker.produce(TXN, identity, PARTITIONS[0], 0, b"value")
    return identity


async def test_a_transaction_is_aborted_when_its_time_is_up(broker: TransactionSimulation) -> None:
    identity = await begun(broker)
    broker.timers.advance(TIMEOUT_MS / 1000 - 0.001)
    assert state_of(broker) is TransactionState.ONGOING
    assert broker.coordinator.open_count == 1
    broker.timers.advance(0.001)
    assert state_of(broker) is TransactionState.COMPLETE_ABORT
    assert (broker.coordinator.open_count, broker.coordinator.timed_out) == (0, 1)
    assert broker.committed(PARTITIONS[0]) == []
    assert broker.logs[PARTITIONS[0]].last_stable_offset == 2
    with pytest.raises(TransactionError, match="another instance took over or"):
        await broker.end(TXN, identity, commit=True, raises=False)


async def test_the_time_goes_on_over_a_restart(broker: TransactionSimulation) -> None:
    await begun(broker)
    again = TransactionSimulation(broker.disk.after_kill())
    again.timers.advance(TIMEOUT_MS / 1000 * 0.75)
    await again.coordinator.recover()
    assert state_of(again) is TransactionState.ONGOING
    again.timers.advance(TIMEOUT_MS / 1000 * 0.25)
    assert state_of(again) is TransactionState.COMPLETE_ABORT


async def test_each_transaction_has_its_own_time(broker: TransactionSimulation) -> None:
    identity = await begun(broker)
    broker.timers.advance(TIMEOUT_MS / 1000 * 0.9)
    await broker.end(TXN, identity, commit=True, raises=False)
    broker.add(TXN, identity, PARTITIONS[1])
    broker.timers.advance(TIMEOUT_MS / 1000 * 0.9)
    assert state_of(broker) is TransactionState.ONGOING


async def test_what_no_transactional_id_claims_is_aborted_at_the_start(
    broker: TransactionSimulation,
) -> None:
    await begun(broker)
    broker.store.forget(TXN)
    again = TransactionSimulation(broker.disk.after_kill())
    assert list(again.open_transactions())
    await again.coordinator.recover()
    assert not list(again.open_transactions())
    assert again.committed(PARTITIONS[0]) == []


async def test_an_id_that_nobody_uses_is_forgotten(broker: TransactionSimulation) -> None:
    broker.coordinator.start()
    await broker.initialize()
    broker.timers.advance(7 * DAY_SECONDS - 3600)
    assert state_of(broker) is TransactionState.EMPTY
    broker.timers.advance(2 * 3600)
    with pytest.raises(TransactionError, match="there is no transactional id"):
        state_of(broker)
    assert TransactionSimulation(broker.disk.after_kill()).store.get(TXN) is None


async def test_a_journal_that_is_mostly_history_is_rewritten(
    broker: TransactionSimulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "COMPACTION_FLOOR", 1_000)
    broker.coordinator.start()
    for _ in range(50):
        identity = await broker.initialize()
    before = broker.store.journal.size
    broker.timers.advance(10)
    assert broker.store.journal.size < before / 10
    again = TransactionSimulation(broker.disk.after_kill())
    assert again.coordinator.describe(TXN).identity == identity


def record(epoch: int, state: TransactionState = TransactionState.EMPTY) -> TransactionRecord:
    return TransactionRecord(
        transactional_id=TXN, producer_id=5, epoch=epoch, timeout_ms=1, updated_ms=0, state=state
    )


def test_a_producer_whose_epochs_run_out_gets_another_id() -> None:
    renewed = initialized(
        record(LAST_EPOCH), timeout_ms=1, claimed=None, new_producer_id=lambda: 6, now_ms=1
    )
    assert renewed.identity == (6, 0)
    claimed = Identity(5, LAST_EPOCH)
    renewed = initialized(
        record(LAST_EPOCH), timeout_ms=1, claimed=claimed, new_producer_id=lambda: 6, now_ms=1
    )
    told_again = initialized(
        renewed, timeout_ms=1, claimed=claimed, new_producer_id=lambda: 7, now_ms=2
    )
    assert told_again.identity == renewed.identity == (6, 0)


def test_a_transaction_of_the_last_epoch_ends_with_another_id() -> None:
    def end(before: TransactionRecord) -> TransactionRecord | None:
        return ended(
            before,
            Identity(5, LAST_EPOCH),
            commit=True,
            raises_epoch=True,
            new_producer_id=lambda: 6,
            now_ms=1,
        )

    decided = end(record(LAST_EPOCH, TransactionState.ONGOING))
    assert decided is not None
    assert decided.identity == (5, LAST_EPOCH + 1), "which markers carry, and nobody else"
    assert decided.next_identity == (6, 0)
    assert end(decided) is None
    finished = completed(decided, now_ms=2)
    assert finished.identity == (6, 0)
    assert end(finished) is None


names = st.text(max_size=10).filter(lambda text: text.isprintable())
numbers = st.integers(-1, 2**40)
records = st.builds(
    TransactionRecord,
    transactional_id=names,
    producer_id=numbers,
    epoch=st.integers(-1, 2**15 - 1),
    timeout_ms=numbers,
    updated_ms=numbers,
    state=st.sampled_from(TransactionState),
    started_ms=numbers,
    partitions=st.frozensets(st.builds(TopicPartition, names, st.integers(0, 100)), max_size=3),
    groups=st.frozensets(names, max_size=3),
    last_epoch=st.integers(-1, 2**15 - 1),
    previous_producer_id=numbers,
    next_producer_id=numbers,
)


@given(records | st.builds(Forgotten, names))
def test_every_entry_can_be_read_back(entry: TransactionRecord | Forgotten) -> None:
    assert decode(encode(entry)) == entry


@pytest.mark.parametrize("payload", [b"", b"{}", b'["transaction",2]', b'["transaction",1]', b"["])
def test_an_entry_of_another_version_is_refused_with_advice(payload: bytes) -> None:
    with pytest.raises(UnreadableEntry, match="use the Headrace version that wrote it"):
        decode(payload)


async def test_an_id_whose_epochs_run_out_in_an_aborted_transaction_is_replaced(
    broker: TransactionSimulation,
) -> None:
    await broker.initialize()
    broker.store.put(replace(broker.coordinator.describe(TXN), epoch=LAST_EPOCH))
    last = broker.coordinator.describe(TXN).identity
    broker.add(TXN, last, PARTITIONS[0])
    broker.produce(TXN, last, PARTITIONS[0], 0, b"aborted")
    broker.timers.advance(TIMEOUT_MS / 1000)

    renewed = await broker.initialize(claimed=last)
    assert await broker.initialize(claimed=last) == renewed
    broker.add(TXN, renewed, PARTITIONS[0])
    broker.produce(TXN, renewed, PARTITIONS[0], 0, b"committed")
    await broker.end(TXN, renewed, commit=True, raises=True)
    assert broker.committed(PARTITIONS[0]) == [b"committed"]
