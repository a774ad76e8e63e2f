"""Idempotent producers, as Apache Kafka treats them."""

import pytest

from headrace.clock import ManualClock
from headrace.log.errors import CorruptFile, OutOfOrderSequence, StaleProducerEpoch
from headrace.log.producers import (
    EXPIRY_MS,
    LAST_SEQUENCE,
    ProducerStates,
    encode,
    sequence_after,
)
from headrace.records import BatchHeader, read_header
from tests.log.batches import NOW, make_batch


def header(sequence: int, *, count: int = 1, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    return read_header(
        make_batch([NOW] * count, producer_id=producer_id, epoch=epoch, sequence=sequence)
    )


class Writer:
    """Checks and records batches as a log does, at offsets of its own."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.producers = ProducerStates(self.clock)
        self.end_offset = 0

    def write(self, batch: BatchHeader) -> int:
        """Write a batch and return its offset, or that of the original."""
        original = self.producers.check(batch)
        if original is not None:
            return original.base_offset
        offset = self.end_offset
        self.producers.record(batch, offset, -1)
        self.end_offset += batch.record_count
        return offset


@pytest.fixture
def writer() -> Writer:
    return Writer()


def test_batches_in_sequence_are_accepted(writer: Writer) -> None:
    offsets = [writer.write(header(sequence, count=3)) for sequence in (0, 3, 6)]
    assert offsets == [0, 3, 6]


def test_each_of_the_last_five_batches_is_recognised(writer: Writer) -> None:
    for sequence in range(9):
        writer.write(header(sequence))
    for sequence in range(4, 9):
        assert writer.write(header(sequence)) == sequence
    with pytest.raises(OutOfOrderSequence, match="sent sequence 3 after 8"):
        writer.write(header(3))
    assert writer.end_offset == 9


def test_a_retry_must_have_the_same_length(writer: Writer) -> None:
    writer.write(header(0, count=3))
    with pytest.raises(OutOfOrderSequence):
        writer.write(header(0, count=2))


def test_a_gap_is_refused(writer: Writer) -> None:
    writer.write(header(0))
    with pytest.raises(OutOfOrderSequence, match="begin a new epoch"):
        writer.write(header(2))


def test_an_unknown_producer_may_begin_anywhere(writer: Writer) -> None:
    assert writer.write(header(1234)) == 0
    assert writer.write(header(1235)) == 1


def test_an_old_epoch_is_refused(writer: Writer) -> None:
    writer.write(header(0, epoch=3))
    with pytest.raises(StaleProducerEpoch, match="has epoch 3 by now, not 2"):
        writer.write(header(1, epoch=2))


def test_a_new_epoch_begins_at_zero(writer: Writer) -> None:
    writer.write(header(0, epoch=3))
    with pytest.raises(OutOfOrderSequence, match="with sequence 0"):
        writer.write(header(1, epoch=4))
    assert writer.write(header(0, epoch=4)) == 1
    assert writer.write(header(0, epoch=4)) == 1
    assert writer.write(header(1, epoch=4)) == 2


def test_producers_do_not_disturb_each_other(writer: Writer) -> None:
    assert writer.write(header(0, producer_id=1)) == 0
    assert writer.write(header(0, producer_id=2)) == 1
    assert writer.write(header(1, producer_id=1)) == 2
    assert set(writer.producers.active()) == {1, 2}
    assert writer.producers.active()[1].last_sequence == 1


def test_sequences_begin_again_after_the_largest(writer: Writer) -> None:
    last = header(LAST_SEQUENCE - 1, count=2)
    writer.write(last)
    assert writer.write(header(0)) == 2
    assert writer.write(last) == 0
    assert sequence_after(LAST_SEQUENCE - 1, 3) == 1


def test_a_batch_across_the_largest_sequence_is_followed(writer: Writer) -> None:
    across = header(LAST_SEQUENCE, count=3)
    writer.write(across)
    assert writer.write(across) == 0
    assert writer.write(header(2)) == 3


def test_a_silent_producer_is_forgotten_after_a_day(writer: Writer) -> None:
    writer.write(header(0, producer_id=1))
    writer.clock.advance(EXPIRY_MS / 1000 - 1)
    writer.write(header(0, producer_id=2))
    assert writer.producers.expire() == 0
    writer.clock.advance(2)
    assert writer.producers.expire() == 1
    assert set(writer.producers.active()) == {2}
    assert len(writer.producers) == 1
    assert writer.write(header(99, producer_id=1)) == 2


def test_a_snapshot_brings_everything_back(writer: Writer) -> None:
    for sequence in range(7):
        writer.write(header(sequence, producer_id=1, epoch=2))
    writer.write(header(LAST_SEQUENCE, producer_id=2**62, epoch=32_000))
    restored = ProducerStates.decode(encode(writer.producers.active()), writer.clock)
    assert restored.active() == writer.producers.active()


def test_a_damaged_snapshot_is_noticed(writer: Writer) -> None:
    writer.write(header(0))
    data = encode(writer.producers.active())
    for length in range(1, len(data)):
        with pytest.raises(CorruptFile):
            ProducerStates.decode(data[:length], writer.clock)


def test_batches_that_were_cut_off_may_be_sent_again(writer: Writer) -> None:
    for sequence in range(3):
        writer.write(header(sequence))
    writer.producers.truncate(2)
    writer.end_offset = 2
    assert writer.write(header(1)) == 1
    assert writer.write(header(2)) == 2
    writer.producers.truncate(0)
    writer.end_offset = 0
    assert writer.write(header(0)) == 0


def test_a_replay_from_the_log_remembers_the_same(writer: Writer) -> None:
    replayed = ProducerStates(writer.clock)
    for sequence in range(7):
        batch = header(sequence)
        writer.write(batch)
        replayed.replay(batch._replace(base_offset=sequence))
    assert replayed.active() == writer.producers.active()
