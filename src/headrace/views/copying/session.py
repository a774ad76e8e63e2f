"""One attempt to copy a topic: from claiming its lanes until it is stopped or fails.

Each partition of the topic is a lane of the store, whose positions are offsets: so the store itself
knows where to go on, and whatever happens to this process, every record is in it once.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from headrace.clock import Clock
from headrace.kafka import ClusterError, Isolation, Partition, UnknownTopic
from headrace.kafka.connection import Connection, connect
from headrace.kafka.gaps import OffsetsGone
from headrace.kafka.raw_offsets import StoredOffset, store_offset
from headrace.kafka.raw_positions import EARLIEST, LATEST, list_offsets
from headrace.settings import KafkaSettings, SinkSettings
from headrace.streams.sinks.contract import Place
from headrace.streams.sinks.topic import Delivery, TopicSink
from headrace.views.copying.errors import RecordRejected, TopicShrunk
from headrace.views.copying.progress import Condition, CopyProgress
from headrace.views.copying.reading import Piece, RowReader, letters_of
from headrace.views.stores import Claim, Lane, Position, Refusal, RowRefused, Session, Store
from headrace.views.stores.staging import Staged

_GROUPS = "headrace-sink."
"""What the names of groups begin with whose offsets tell tools how far copies are."""


@dataclass(slots=True)
class _Lane:
    """A partition, the right to write it, and how far it is."""

    claim: Claim
    offset: int


class CopySession:
    """Copies until it is told to stop, or with `once` all that is there when it begins."""

    def __init__(
        self,
        settings: SinkSettings,
        kafka: KafkaSettings,
        store: Store,
        *,
        clock: Clock,
        progress: CopyProgress,
        stopping: threading.Event,
        once: bool = False,
    ) -> None:
        self._settings = settings
        self._kafka = kafka
        self._store = store
        self._clock = clock
        self._progress = progress
        self._stopping = stopping
        self._once = once
        self._lanes: dict[Partition, _Lane] = {}

    def run(self) -> bool:
        """Whether everything was copied that was wanted; False if it was stopped before."""
        reader = RowReader(self._settings)
        connection = connect(self._kafka)
        with closing(self._store.session()) as session:
            session.prepare(reader.shape)
            ends = self._look(connection, session)
            self._progress.condition, self._progress.failure = Condition.COPYING, None
            while not self._stopping.is_set():
                copied = [
                    self._copy(connection, session, reader, partition, end)
                    for partition, end in ends.items()
                    if not self._stopping.is_set()
                ]
                if self._once and not self._stopping.is_set():
                    return True
                if not any(copied):
                    self._stopping.wait(self._settings.poll_ms / 1000)
                if not self._stopping.is_set():
                    ends = self._look(connection, session)
        return False

    def _look(self, connection: Connection, session: Session) -> dict[Partition, int]:
        """Where the partitions end now; those that are new are claimed."""
        topic = self._settings.source
        found = connection.topics([topic])
        if topic not in found:
            raise UnknownTopic(topic)
        partitions = [Partition(topic, number) for number in sorted(found[topic].leaders)]
        ends = list_offsets(connection, partitions, LATEST, isolation=Isolation.READ_COMMITTED)
        if new := [each for each in partitions if each not in self._lanes]:
            starts = list_offsets(connection, new, EARLIEST)
            for each in new:
                claim = session.claim(Lane(self._settings.called, f"{each.topic}-{each.number}"))
                begin = starts[each] if claim.position is None else claim.position.number
                self._lanes[each] = _Lane(claim, begin)
        for each, lane in self._lanes.items():
            if lane.offset > ends[each]:
                raise TopicShrunk(
                    f"{each} ends at {ends[each]}, but {self._settings.called} has copied it up to "
                    f"{lane.offset}: it is another topic of the same name, or it lost records. "
                    "Copy it under another name, which begins anew."
                )
        self._progress.behind = sum(ends[each] - self._lanes[each].offset for each in partitions)
        return ends

    def _copy(
        self,
        connection: Connection,
        session: Session,
        reader: RowReader,
        partition: Partition,
        end: int,
    ) -> bool:
        """Copy a partition up to an offset; whether there was anything to copy."""
        lane = self._lanes[partition]
        if lane.offset >= end:
            return False
        for pieces, reached in self._batches(connection, reader, partition, lane.offset, end):
            self._write(session, reader, partition, pieces, reached)
            self._tell_group(connection, partition, reached)
            if self._stopping.is_set():
                break
        return True

    def _batches(
        self, connection: Connection, reader: RowReader, partition: Partition, start: int, end: int
    ) -> Iterator[tuple[list[Piece], int]]:
        """Pieces to be written together, and the offset that they lead to."""
        pieces: list[Piece] = []
        count = 0
        try:
            for piece in reader.pieces(connection, partition, start, end):
                pieces.append(piece)
                count += piece.records.num_rows
                if count >= self._settings.batch:
                    yield pieces, piece.end
                    pieces, count = [], 0
        except OffsetsGone as gone:
            if self._settings.on_gap == "fail":
                raise
            self._progress.lost += min(gone.earliest, end) - gone.first
            yield pieces, min(gone.earliest, end)
            yield from self._batches(connection, reader, partition, gone.earliest, end)
            return
        # Also where the last offsets belong to no record, as after a transaction.
        yield pieces, end

    def _write(
        self,
        session: Session,
        reader: RowReader,
        partition: Partition,
        pieces: list[Piece],
        reached: int,
    ) -> None:
        lane, progress = self._lanes[partition], self._progress
        rejected = sum(len(piece.rejected) for piece in pieces)
        rows = (piece.rows for piece in pieces)

        with Staged(rows, reader.shape.key) as staged:
            refused = list(staged.keyless)
            if rejected or refused:
                self._reject(partition, pieces, refused)

            def refuse(found: Sequence[Refusal]) -> None:
                refused.extend(found)
                self._reject(partition, [replace(each, rejected=()) for each in pieces], found)

            session.apply(lane.claim, Position(reached), reader.shape, staged.chunks(), refuse)
            progress.rows += staged.rows - len(refused)
        lane.offset = reached
        progress.rejected += rejected + len(refused)
        progress.records += sum(piece.records.num_rows for piece in pieces)
        progress.batches += 1
        if pieces:
            progress.behind_ms = max(0, self._clock.now_ms() - pieces[-1].last_ms)

    def _reject(
        self, partition: Partition, pieces: list[Piece], refused: Sequence[Refusal]
    ) -> None:
        """Write dead letters, or raise if there is no place for them and they may not be skipped.

        They are there before the others are in the store; if that fails in between, they come
        again. Their headers tell which record each is.
        """
        topic = self._settings.dead_letters
        if topic is None:
            if self._settings.on_error == "skip":
                return
            raise _rejection(partition, pieces, refused)
        letters = letters_of(pieces, refused, partition)
        sink = TopicSink(self._kafka, topic, Delivery.AT_LEAST_ONCE)
        sink.write(Place(self._settings.called, 0, partition.number, 1), iter(letters))

    def _tell_group(self, connection: Connection, partition: Partition, offset: int) -> None:
        """Let tools that watch lag see how far this is; what counts is what the store knows."""
        with suppress(ClusterError):
            group = f"{_GROUPS}{self._settings.called}"
            store_offset(connection, group, partition, StoredOffset(offset, ""))


def _rejection(
    partition: Partition, pieces: list[Piece], refused: Sequence[Refusal]
) -> RecordRejected | RowRefused:
    remedy = "Set dead_letters to a topic for such records, or on_error to skip."
    for piece in pieces:
        if piece.rejected:
            record, reason = piece.rejected[0]
            offset = piece.records.column("offset")[record].as_py()
            return RecordRejected(f"{partition} at offset {offset}: {reason}. {remedy}")
    first, reason = min(refused)
    for piece in pieces:
        if first < piece.rows.num_rows:
            offset = piece.records.column("offset")[int(piece.places[first])].as_py()
            return RowRefused(
                f"{partition} at offset {offset}: the store refuses the row: {reason}. {remedy}"
            )
        first -= piece.rows.num_rows
    raise AssertionError("a row that is refused is one of those that were given")
