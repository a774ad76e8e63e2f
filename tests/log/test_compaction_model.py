"""Any sequence of what can happen to a compacted log, compared with a dictionary."""

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.clock import ManualClock
from headrace.log import CompactionPolicy, LogSettings, PartitionLog
from headrace.log.checkpoint import CHECKPOINT
from headrace.log.compaction import read_progress
from headrace.log.transactions import AbortedTransaction
from headrace.records import Codec, Marker, Record, build_batch, read_header
from tests.log.batches import DIRECTORY, NOW, new_disk, open_log
from tests.log.compacting import Found, compact, read_records
from tests.log.simulated_disk import Died

Row: TypeAlias = tuple[bytes, bytes | None, int, list[tuple[str, bytes | None]]]
"""A record: key, value, time and headers."""

RETENTION_MS = 5000
PRODUCERS = (1, 2)

seeds = st.integers(0, 2**32)
keys = st.sampled_from([b"", b"a", b"b", b"long key, beyond a word", b"long key, beyond a worD"])
values = st.one_of(st.none(), st.binary(max_size=40))
headers = st.lists(
    st.tuples(st.sampled_from(["", "h"]), st.one_of(st.none(), st.just(b"v"))), max_size=2
)
records = st.lists(st.tuples(keys, values, st.integers(0, 50), headers), min_size=1, max_size=4)


@dataclass
class Producer:
    """What a transactional producer has done."""

    sequence: int = 0
    first_offset: int | None = None
    """Where its open transaction begins."""


@dataclass
class Model:
    """What was ever written, and what became of it."""

    written: dict[int, Found] = field(default_factory=dict)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    cleaned_at: dict[int, int] = field(default_factory=dict)
    """When a tombstone was first seen by compaction."""

    def is_aborted(self, offset: int, owner: dict[int, int]) -> bool:
        """Whether a record belongs to an aborted transaction."""
        producer = owner.get(offset)
        return any(
            each.producer_id == producer and each.first_offset <= offset <= each.last_offset
            for each in self.aborted
        )


class CompactedLogMachine(RuleBasedStateMachine):
    """Drives a compacted log and keeps what it must still say."""

    @initialize(
        segment_bytes=st.sampled_from([100, 300, 1000]), interval=st.sampled_from([0, 100, 4096])
    )
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.settings = LogSettings(
            segment_bytes=segment_bytes, index_interval_bytes=interval, delete=False
        )
        self.policy = CompactionPolicy(delete_retention_ms=RETENTION_MS)
        self.clock = ManualClock(NOW)
        self.disk = new_disk()
        self.model = Model()
        self.owner: dict[int, int] = {}
        self.producers = {each: Producer() for each in PRODUCERS}
        self.log = self.open()

    def open(self) -> PartitionLog:
        return open_log(self.disk, self.settings, clock=self.clock)

    @rule(rows=records, codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4]))
    def append(self, rows: list[Row], codec: Codec) -> None:
        self.store(rows, codec=codec)

    @rule(rows=records, producer_id=st.sampled_from(PRODUCERS))
    def append_in_a_transaction(self, rows: list[Row], producer_id: int) -> None:
        producer = self.producers[producer_id]
        base_offset = self.store(
            rows,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=producer.sequence,
            transactional=True,
        )
        if producer.first_offset is None:
            producer.first_offset = base_offset
        producer.sequence += len(rows)

    @rule(producer_id=st.sampled_from(PRODUCERS), commit=st.booleans())
    def end_a_transaction(self, producer_id: int, commit: bool) -> None:
        producer = self.producers[producer_id]
        if producer.first_offset is None:
            return
        marker = Marker(producer_id, 0, 0, commit)
        offset = self.log.append_marker(marker).base_offset
        if not commit:
            aborted = AbortedTransaction(producer_id, producer.first_offset, offset, 0)
            self.model.aborted.append(aborted)
        producer.first_offset = None
        self.sync()
        self.log.reveal(offset)

    @rule(rows=records, producer_id=st.sampled_from(PRODUCERS), commit=st.booleans())
    def write_a_whole_transaction(self, rows: list[Row], producer_id: int, commit: bool) -> None:
        self.append_in_a_transaction(rows, producer_id)
        self.end_a_transaction(producer_id, commit)

    @rule(seconds=st.integers(0, 8))
    def pass_time(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def clean(self) -> None:
        now = self.clock.now_ms()
        self.note_tombstones(now)
        compact(self.disk, self.log, now, policy=self.policy)
        self.check_nothing_twice()

    @rule(steps=st.integers(0, 60), power=st.booleans(), seed=seeds)
    def crash_while_cleaning(self, steps: int, power: bool, seed: int) -> None:
        self.disk.die_after(steps)
        with suppress(Died):
            self.clean()
        self.disk = self.disk.after_power_loss(Random(seed)) if power else self.disk.after_kill()
        self.log = self.open()
        leftovers = [path for path in self.disk.files() if path.name.endswith(".rewritten")]
        assert leftovers == []

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self.log = self.open()

    @rule()
    def lose_the_checkpoint(self) -> None:
        end, open_transactions = self.log.end_offset, dict(self.log.transactions.open)
        self.log.close()
        if DIRECTORY / CHECKPOINT in self.disk.files():
            self.disk.file(DIRECTORY / CHECKPOINT).data[30] ^= 1
        self.log = self.open()
        assert self.log.recovery.truncated_bytes == 0
        assert self.log.end_offset == end
        assert self.log.transactions.open == open_transactions

    @rule(part=st.floats(0, 1))
    def read_from_anywhere(self, part: float) -> None:
        offset = int(self.log.end_offset * part)
        assert read_records(self.log, offset) == [
            each for each in read_records(self.log) if each.offset >= offset
        ]

    @invariant()
    def readers_find_what_they_must(self) -> None:
        found = read_records(self.log)
        offsets = [each.offset for each in found]
        assert offsets == sorted(set(offsets))
        for each in found:
            assert each == self.model.written[each.offset]
        now = self.clock.now_ms()
        latest = self.latest()
        for each in latest.values():
            if each.value is not None:
                assert each.offset in offsets, "the latest value of a key is gone"
            elif self.model.cleaned_at.get(each.offset, now) + RETENTION_MS > now:
                assert each.offset in offsets, "a tombstone went before its time"
        table = {
            each.key: each.value
            for each in found
            if not self.model.is_aborted(each.offset, self.owner)
        }
        for key, value in table.items():
            assert latest[key].value == value, "a reader learns what is not so any more"

    def store(self, rows: list[Row], **options: object) -> int:
        batch = build_batch(
            [Record(key, value, NOW + time, pairs) for key, value, time, pairs in rows],
            timestamp=NOW,
            **options,  # type: ignore[arg-type]
        )
        base_offset = self.log.append(batch, read_header(batch)).base_offset
        for number, (key, value, time, pairs) in enumerate(rows):
            offset = base_offset + number
            self.model.written[offset] = Found(offset, key, value, NOW + time, tuple(pairs))
            self.owner[offset] = int(options.get("producer_id", -1))  # type: ignore[call-overload]
        self.sync()
        return base_offset

    def sync(self) -> None:
        self.log.advance(self.log.flush())

    def latest(self) -> dict[bytes | None, Found]:
        """The last of each key's records, aborted ones aside."""
        written = self.model.written.values()
        return {
            each.key: each for each in written if not self.model.is_aborted(each.offset, self.owner)
        }

    def note_tombstones(self, now: int) -> None:
        for each in self.model.written.values():
            if each.value is None and each.offset < self.log.last_stable_offset:
                sealed = self.log.sealed_segments()
                if sealed and each.offset < sealed[-1].end_offset:
                    self.model.cleaned_at.setdefault(each.offset, now)

    def check_nothing_twice(self) -> None:
        """In the clean part, no key occurs twice."""
        clean = read_progress(self.disk, DIRECTORY)
        found = [each.key for each in read_records(self.log) if each.offset < clean]
        assert len(found) == len(set(found))


TestCompactedLog = CompactedLogMachine.TestCase
TestCompactedLog.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
