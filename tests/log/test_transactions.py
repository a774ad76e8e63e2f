"""Open and aborted transactions in a log: what is stable, what is skipped, what a crash leaves."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log import Flush, LogSettings, PartitionLog
from headrace.log.checkpoint import CHECKPOINT, CHECKPOINT_FORMAT
from headrace.log.errors import CorruptFile, InvalidTransactionState, StaleProducerEpoch
from headrace.log.framing import FileFormat, read_framed, write_framed
from headrace.log.transactions import AbortedTransaction, Transactions, encode
from headrace.records import Marker, Record, build_batch, build_marker, read_header, read_marker
from tests.log.batches import DIRECTORY, NOW, append, make_batch, new_disk, open_log
from tests.log.simulated_disk import SimulatedDisk

IMMEDIATE = LogSettings(segment_bytes=1000, index_interval_bytes=200, flush=Flush.OS)
COMMIT, ABORT = True, False


def write(
    log: PartitionLog, producer_id: int, *, epoch: int = 0, transactional: bool = True
) -> int:
    """Append a batch of two records that continues what its producer wrote; returns its offset."""
    state = log.producers.active().get(producer_id)
    known = state is not None and state.epoch == epoch and state.batches
    batch = build_batch(
        [Record(b"key", b"value")] * 2,
        timestamp=NOW,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=state.last_sequence + 1 if state is not None and known else 0,
        transactional=transactional,
    )
    return append(log, batch).base_offset


def end(log: PartitionLog, producer_id: int, commit: bool, *, epoch: int = 0) -> int:
    """Append a marker and reveal it; returns its offset."""
    offset = log.append_marker(Marker(producer_id, epoch, 0, commit)).base_offset
    log.reveal(offset)
    return offset


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


@pytest.fixture
def log(disk: SimulatedDisk) -> PartitionLog:
    return open_log(disk, IMMEDIATE)


def test_a_marker_says_what_it_was_made_of() -> None:
    for marker in (Marker(7, 3, 9, COMMIT), Marker(2**40, 0, 0, ABORT)):
        batch = build_marker(marker, NOW)
        assert read_marker(batch, read_header(batch)) == marker


def test_everything_is_stable_without_transactions(log: PartitionLog) -> None:
    append(log, make_batch())
    assert log.last_stable_offset == log.high_watermark == 1


def test_the_earliest_open_transaction_bounds_what_is_stable(log: PartitionLog) -> None:
    append(log, make_batch())
    write(log, 1)
    write(log, 2)
    write(log, 1)
    assert log.last_stable_offset == 1
    end(log, 1, COMMIT)
    assert log.last_stable_offset == 3
    end(log, 2, ABORT)
    assert log.last_stable_offset == log.end_offset


def test_what_has_ended_is_unstable_until_it_is_revealed(log: PartitionLog) -> None:
    write(log, 1)
    offset = log.append_marker(Marker(1, 0, 0, COMMIT)).base_offset
    append(log, make_batch())
    assert log.last_stable_offset == 0
    assert log.reveal(offset)
    assert log.last_stable_offset == 4
    assert not log.reveal(offset)


def test_what_is_not_synced_is_not_stable(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    write(log, 1)
    log.advance(log.flush())
    end(log, 1, COMMIT)
    assert log.last_stable_offset == log.high_watermark == 2
    log.advance(log.flush())
    assert log.last_stable_offset == 3


def test_aborted_transactions_are_found_by_what_they_span(log: PartitionLog) -> None:
    write(log, 1)
    write(log, 2)
    end(log, 2, ABORT)
    write(log, 3)
    end(log, 3, COMMIT)
    end(log, 1, ABORT)
    second = AbortedTransaction(2, 2, 4, 0)
    first = AbortedTransaction(1, 0, 8, 9)
    assert log.aborted_transactions(0, 9) == [second, first]
    assert log.aborted_transactions(5, 9) == [first]
    assert log.aborted_transactions(0, 2) == [first]
    assert log.aborted_transactions(9, 20) == []
    log.forget_aborted(before=5)
    assert log.aborted_transactions(0, 9) == [first]


def test_a_producer_writes_nothing_outside_of_its_open_transaction(log: PartitionLog) -> None:
    write(log, 1)
    with pytest.raises(InvalidTransactionState, match="commit or abort it first"):
        write(log, 1, transactional=False)
    end(log, 1, ABORT)
    write(log, 1, transactional=False)


def test_a_marker_fences_the_epochs_before_its_own(log: PartitionLog) -> None:
    write(log, 1, epoch=4)
    end(log, 1, ABORT, epoch=5)
    with pytest.raises(StaleProducerEpoch):
        write(log, 1, epoch=4)
    with pytest.raises(StaleProducerEpoch, match="has ended already"):
        end(log, 1, COMMIT, epoch=4)
    write(log, 1, epoch=5)
    assert log.transactions.open == {1: 3}


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_kill_forgets_nothing_of_transactions(
    disk: SimulatedDisk, log: PartitionLog, checkpoint: bool
) -> None:
    write(log, 1)
    end(log, 1, ABORT)
    write(log, 2)
    if checkpoint:
        log.checkpoint()
    write(log, 3)
    end(log, 3, ABORT)
    again = open_log(disk.after_kill(), IMMEDIATE)
    assert again.last_stable_offset == log.last_stable_offset == 3
    assert again.transactions.moment() == log.transactions.moment()


def test_a_clean_restart_reads_transactions_from_the_checkpoint(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    write(log, 1)
    end(log, 1, ABORT)
    write(log, 2)
    before = log.transactions.moment()
    log.close()
    again = open_log(disk, IMMEDIATE)
    assert again.recovery.clean
    assert again.transactions.moment() == before


def test_a_marker_that_is_lost_opens_its_transaction_again(disk: SimulatedDisk) -> None:
    transactions = Transactions()
    transactions.record(1, 0)
    transactions.end(Marker(1, 0, 0, ABORT), 2)
    transactions.record(2, 3)
    transactions.truncate(2)
    assert transactions.open == {1: 0}
    assert transactions.first_unstable == 0
    assert transactions.aborted(0, 10) == []


def test_a_checkpoint_of_the_version_before_is_read(disk: SimulatedDisk, log: PartitionLog) -> None:
    append(log, make_batch(producer_id=7, epoch=0, sequence=0))
    log.close()
    path = DIRECTORY / CHECKPOINT
    facts, producers, _ = read_framed(disk, path, CHECKPOINT_FORMAT, {1: 2, 2: 3})
    write_framed(disk, path, FileFormat(b"HRCP", 1), [facts, producers])
    again = open_log(disk, IMMEDIATE)
    assert again.recovery.clean
    assert list(again.producers.active()) == [7]
    assert again.last_stable_offset == 1


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_damaged_state_is_noticed(log: PartitionLog, cut: int) -> None:
    write(log, 1)
    end(log, 1, ABORT)
    data = encode(log.transactions.moment())
    with pytest.raises(CorruptFile):
        Transactions.decode(data[:-cut])


@given(st.integers(0, 2**32), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_any_history_is_remembered_and_recovered(seed: int, power: int) -> None:
    """Compare every lookup with the whole history, before and after a loss of power."""
    random = Random(seed)
    disk = new_disk()
    log = open_log(disk)
    history: list[tuple[int, int, int]] = []
    opened: dict[int, int] = {}
    for _ in range(random.randrange(30)):
        producer_id = random.randrange(4)
        match random.choice(("write", "write", "end", "plain", "checkpoint")):
            case "write":
                opened.setdefault(producer_id, write(log, producer_id))
            case "end":
                commit = random.random() < 0.5
                offset = end(log, producer_id, commit)
                first = opened.pop(producer_id, None)
                if first is not None and not commit:
                    history.append((producer_id, first, offset))
            case "plain":
                append(log, make_batch())
            case "checkpoint":
                log.checkpoint()
    log.advance(log.flush())
    for each in (log, open_log(disk.after_power_loss(Random(power)))):
        assert each.transactions.open == opened
        assert each.last_stable_offset == min(opened.values(), default=log.end_offset)
        for first in range(0, log.end_offset, 3):
            for limit in range(first + 1, log.end_offset + 1, 4):
                found = [row[:3] for row in each.aborted_transactions(first, limit)]
                assert found == [row for row in history if row[2] >= first and row[1] < limit]
