"""Any sequence of what can happen to a log, compared with a list that nothing can happen to."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from headrace.clock import ManualClock
from headrace.log import Flush, LogSettings, PartitionLog
from headrace.log.errors import OffsetOutOfRange, OutOfOrderSequence, StorageFailed, StorageFull
from headrace.records import iterate_headers
from tests.log.batches import NOW, append, make_batch, new_disk, open_log
from tests.log.simulated_disk import Died

PRODUCERS = (1, 2)

seeds = st.integers(0, 2**32)
timestamps = st.lists(st.integers(NOW, NOW + 50), min_size=1, max_size=4)


@dataclass(frozen=True)
class Stored:
    """A batch as the log must return it."""

    base_offset: int
    timestamps: tuple[int, ...]
    data: bytes
    producer_id: int
    sequence: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.timestamps)


class LogMachine(RuleBasedStateMachine):
    """Drives a log and keeps a list of what it must contain.

    `durable` is the offset up to which nothing may ever be lost, `safe_start` the start that a
    crash may not undo.
    """

    flush = Flush.ACK

    @initialize(
        segment_bytes=st.sampled_from([1, 300, 1000, 5000]),
        interval=st.sampled_from([0, 100, 400]),
    )
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.settings = LogSettings(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_ms=10_000,
            retention_ms=100_000,
            retention_bytes=4000,
            flush=self.flush,
        )
        self.clock = ManualClock(NOW)
        self.disk = new_disk()
        self.batches: list[Stored] = []
        self.end = 0
        self.durable = 0
        self.safe_start = 0
        self.log = self.open()

    def open(self) -> PartitionLog:
        log = open_log(self.disk, self.settings, clock=self.clock)
        self.start = log.start_offset
        self.visible = log.high_watermark
        return log

    @rule(times=timestamps, size=st.integers(0, 300))
    def append(self, times: list[int], size: int) -> None:
        self.store(times, make_batch(times, value=b"x" * size))

    @rule(times=timestamps, producer_id=st.sampled_from(PRODUCERS))
    def append_idempotent(self, times: list[int], producer_id: int) -> None:
        sequence = self.next_sequence(producer_id)
        self.store(
            times, self.idempotent_batch(times, producer_id, sequence), producer_id, sequence
        )

    @rule(producer_id=st.sampled_from(PRODUCERS), back=st.integers(1, 7))
    def retry(self, producer_id: int, back: int) -> None:
        written = self.written_by(producer_id)
        if len(written) < back:
            return
        original = written[-back]
        batch = self.idempotent_batch(original.timestamps, producer_id, original.sequence)
        if back > 5:
            with pytest.raises(OutOfOrderSequence):
                append(self.log, batch)
            return
        result = append(self.log, batch)
        assert result.duplicate
        assert result.base_offset == original.base_offset
        assert result.last_offset == original.next_offset - 1

    @rule(producer_id=st.sampled_from(PRODUCERS))
    def lose_a_batch_on_the_way(self, producer_id: int) -> None:
        if self.written_by(producer_id):
            sequence = self.next_sequence(producer_id) + 1
            batch = self.idempotent_batch([NOW], producer_id, sequence)
            with pytest.raises(OutOfOrderSequence):
                append(self.log, batch)

    @rule(times=timestamps, room=st.integers(0, 100))
    def append_to_a_full_disk(self, times: list[int], room: int) -> None:
        with self.disk.full(room), pytest.raises(StorageFull):
            append(self.log, make_batch(times, value=b"x" * 100))

    @rule()
    def sync(self) -> None:
        self.durable = self.log.flush()
        self.log.advance(self.durable)
        self.visible = max(self.visible, self.durable)
        assert self.durable == self.end

    @rule()
    def checkpoint(self) -> None:
        self.log.checkpoint()
        self.mark_durable()

    @rule(seconds=st.integers(1, 30))
    def pass_time(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.log.roll_if_due()

    @rule(remove=st.booleans())
    def enforce_retention(self, remove: bool) -> None:
        retired = self.log.enforce_retention()
        assert self.start <= self.log.start_offset <= self.visible
        self.start = self.log.start_offset
        if remove:
            retired.remove()
            if retired:
                self.safe_start = self.start

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        before = self.start + round((self.visible - self.start) * part)
        self.start = self.log.delete_records(before)
        assert self.start == before
        if before > self.safe_start:
            self.safe_start = before
            if self.log.checkpoint_due is False:
                self.mark_durable()

    @rule()
    def reopen(self) -> None:
        epoch = self.log.leader_epoch
        self.log.close()
        self.check_that_files_are_closed()
        self.log = self.open()
        assert self.log.recovery.clean
        assert self.log.recovery.scanned_bytes == 0
        assert self.log.leader_epoch == epoch
        assert self.log.end_offset == self.end
        assert self.log.start_offset == self.start
        self.mark_durable()

    @rule()
    def be_killed(self) -> None:
        self.disk = self.disk.after_kill()
        self.come_back(at_least=self.end)

    @rule(seed=seeds)
    def lose_power(self, seed: int) -> None:
        self.disk = self.disk.after_power_loss(Random(seed))
        self.come_back(at_least=self.durable)

    @rule(
        doing=st.sampled_from(["append", "flush", "checkpoint", "retention", "delete", "close"]),
        steps=st.integers(0, 12),
        steps_of_recovery=st.integers(0, 20),
        seed=seeds,
        power_fails=st.booleans(),
    )
    def die(
        self, doing: str, steps: int, steps_of_recovery: int, seed: int, power_fails: bool
    ) -> None:
        """End in the middle of something, and again in the middle of the recovery."""
        random = Random(seed)
        written = self.end
        batch = make_batch([NOW], value=b"x" * 200)
        actions = {
            "append": lambda: append(self.log, batch),
            "flush": self.log.flush,
            "checkpoint": self.log.checkpoint,
            "retention": lambda: self.log.enforce_retention().remove(),
            "delete": lambda: self.log.delete_records((self.start + self.visible) // 2),
            "close": self.log.close,
        }
        self.disk.die_after(steps)
        with suppress(Died):
            actions[doing]()
        if doing == "append":
            self.batches.append(Stored(written, (NOW,), bytes(batch), -1, -1))
            self.end = written + 1
        for steps_left in (steps_of_recovery, None):
            self.disk = (
                self.disk.after_power_loss(random) if power_fails else self.disk.after_kill()
            )
            if steps_left is not None:
                self.disk.die_after(steps_left)
                with suppress(Died):
                    open_log(self.disk, self.settings, clock=self.clock)
        self.come_back(at_least=self.durable if power_fails else written, times=2)

    @rule()
    def see_a_sync_fail(self) -> None:
        if self.log.dirty:
            with self.disk.failing("sync"), pytest.raises(StorageFailed):
                self.log.flush()
            with pytest.raises(StorageFailed):
                append(self.log, make_batch())
        self.log.close()
        self.come_back(at_least=self.end)

    @rule(part=st.floats(0, 1), max_bytes=st.integers(1, 3000))
    def read(self, part: float, max_bytes: int) -> None:
        offset = self.start + round((self.visible - self.start) * part)
        expected = [batch for batch in self.batches if offset < batch.next_offset <= self.visible]
        data = self.log.read(offset, max_bytes).read()
        assert bool(data) == bool(expected)
        headers = list(iterate_headers(data))
        for (position, header), batch in zip(headers, expected, strict=False):
            assert data[position : position + header.size] == batch.data
        assert len(headers) <= len(expected)
        assert len(data) <= max_bytes or len(headers) == 1

    @rule(back=st.integers(1, 1000), beyond=st.integers(1, 1000))
    def read_outside(self, back: int, beyond: int) -> None:
        for offset in (self.start - back, self.end + beyond):
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, 100)

    @rule(timestamp=st.integers(NOW - 1, NOW + 51))
    def look_up_a_time(self, timestamp: int) -> None:
        later = [record for record in self.visible_records() if record[1] >= timestamp]
        assert self.log.offset_for_time(timestamp) == (later[0] if later else None)

    @rule()
    def look_up_the_newest(self) -> None:
        newest = max(
            self.visible_records(), key=lambda record: (record[1], -record[0]), default=None
        )
        found = self.log.max_timestamp()
        if self.start_is_inside_a_batch and found is not None and found.offset == self.start:
            assert newest is not None
            assert found.timestamp >= newest[1]
        else:
            assert found == newest

    @invariant()
    def offsets_agree(self) -> None:
        assert self.log.end_offset == self.end
        assert self.log.start_offset == self.start
        assert self.log.high_watermark == self.visible
        assert self.start <= self.visible <= self.end

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        offset = self.start
        self.log.advance(self.log.flush())
        expected = [batch for batch in self.batches if batch.next_offset > offset]
        for batch in expected:
            data = self.log.read(offset, 1).read()
            assert data == batch.data
            offset = batch.next_offset
        self.log.close()
        self.check_that_files_are_closed()

    def store(
        self, times: list[int], batch: bytearray, producer_id: int = -1, sequence: int = -1
    ) -> None:
        base_offset = self.end
        result = append(self.log, batch)
        assert result == (base_offset, base_offset + len(times) - 1, -1, False)
        self.batches.append(Stored(base_offset, tuple(times), bytes(batch), producer_id, sequence))
        self.end = self.batches[-1].next_offset
        if self.flush is not Flush.ACK:
            self.visible = self.end

    def come_back(self, at_least: int, times: int = 1) -> None:
        end, seen, epoch = self.end, self.visible, self.log.leader_epoch
        self.log = self.open()
        survived = self.log.end_offset
        assert survived <= end
        assert survived >= at_least
        assert self.safe_start <= self.log.start_offset
        assert epoch <= self.log.leader_epoch <= epoch + times
        if survived < seen or self.log.recovery.truncated_bytes:
            assert self.log.leader_epoch > epoch
        self.batches = [batch for batch in self.batches if batch.next_offset <= survived]
        self.end = survived
        self.mark_durable()

    @property
    def start_is_inside_a_batch(self) -> bool:
        return any(batch.base_offset < self.start < batch.next_offset for batch in self.batches)

    def mark_durable(self) -> None:
        self.durable = self.end

    def check_that_files_are_closed(self) -> None:
        assert self.disk.open_descriptors == 0

    def written_by(self, producer_id: int) -> list[Stored]:
        return [batch for batch in self.batches if batch.producer_id == producer_id]

    def idempotent_batch(self, times: Sequence[int], producer_id: int, sequence: int) -> bytearray:
        return make_batch(times, producer_id=producer_id, epoch=0, sequence=sequence)

    def next_sequence(self, producer_id: int) -> int:
        written = self.written_by(producer_id)
        return written[-1].sequence + len(written[-1].timestamps) if written else 0

    def visible_records(self) -> list[tuple[int, int]]:
        return [
            (batch.base_offset + index, timestamp)
            for batch in self.batches
            for index, timestamp in enumerate(batch.timestamps)
            if self.start <= batch.base_offset + index < self.visible
        ]


class RelaxedLogMachine(LogMachine):
    """The same without waiting for the disk: readers may see what a power loss then takes."""

    flush = Flush.OS


MODEST = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
LogMachine.TestCase.settings = MODEST
RelaxedLogMachine.TestCase.settings = MODEST

TestAcknowledgedAfterSync = LogMachine.TestCase
TestAcknowledgedAfterWrite = RelaxedLogMachine.TestCase
