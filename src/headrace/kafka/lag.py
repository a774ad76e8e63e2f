"""How far consumer groups are behind, in records and in time, right under transactions.

What a group has before it is everything from its committed offset up to the end *that it can see*:
the last stable offset if it reads only committed records, the high watermark otherwise. Offsets
are not records, though. Control batches, aborted transactions and compaction leave offsets that
nobody will ever read, so the meter looks for the first record that the group would really get: if
there is none, the lag is zero, and if there is one, its age is the lag in time. The number of
records counts offsets from there on and is an upper bound where such gaps follow.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol

from headrace.clock import Clock, SystemClock
from headrace.kafka.errors import UnknownGroup
from headrace.kafka.first_records import FirstRecord
from headrace.kafka.groups import GroupSummary
from headrace.kafka.lag_unread import FirstUnread, Unread
from headrace.kafka.positions import Isolation, OffsetRange, Partition

IsolationOf = Callable[[str], Isolation]
"""What a group's members are shown of transactions, which no cluster knows."""


def isolation_by(read_uncommitted: Collection[str]) -> IsolationOf:
    """READ_UNCOMMITTED for groups whose name matches one of the patterns."""

    def isolation_of(group: str) -> Isolation:
        if any(fnmatchcase(group, pattern) for pattern in read_uncommitted):
            return Isolation.READ_UNCOMMITTED
        return Isolation.READ_COMMITTED

    return isolation_of


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group has read one partition.

    `committed` is None where the group never committed; `earliest` and `latest`, the end that the
    group can see, where the partition has no leader or is gone; `records` where one of them is
    None; `time_ms` also where the first unread record has no time or could not be read.
    """

    partition: Partition
    committed: int | None
    earliest: int | None
    latest: int | None
    records: int | None
    time_ms: int | None

    @property
    def lost(self) -> int:
        """Offsets that were removed before the group had read them."""
        if self.committed is None or self.earliest is None:
            return 0
        return max(self.earliest - self.committed, 0)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a group is behind in every partition where it has committed."""

    name: str
    state: str
    protocol: str
    isolation: Isolation
    partitions: tuple[PartitionLag, ...]

    @property
    def records(self) -> int:
        """All partitions' lag in records together."""
        return sum(each.records or 0 for each in self.partitions)

    @property
    def time_ms(self) -> int | None:
        """The lag in time of the partition that is furthest behind; None if none is known."""
        known = [each.time_ms for each in self.partitions if each.time_ms is not None]
        return max(known, default=None)

    @property
    def lost(self) -> int:
        """Offsets that were removed before the group had read them."""
        return sum(each.lost for each in self.partitions)


@dataclass(frozen=True, slots=True)
class LagSample:
    """The lag of some groups at one moment, in milliseconds since the epoch."""

    at_ms: int
    groups: tuple[GroupLag, ...]


class LagSource(Protocol):
    """What the meter needs to know of a cluster."""

    def groups(self) -> list[GroupSummary]:
        """All consumer groups."""
        ...

    def partitions(self) -> list[Partition]:
        """All partitions that have a leader."""
        ...

    def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Where a group continues, in those of the partitions where it has committed."""
        ...

    def ranges(
        self, partitions: Collection[Partition], isolation: Isolation
    ) -> dict[Partition, OffsetRange]:
        """What each partition holds, up to the end that such a reader sees."""
        ...

    def first_records(
        self, offsets: Mapping[Partition, int], isolation: Isolation
    ) -> dict[Partition, FirstRecord | None]:
        """The first record from each offset on; None where there is none, left out if unknown."""
        ...


_Ranges = Mapping[Isolation, Mapping[Partition, OffsetRange]]
"""What partitions hold, for each kind of reader."""


class _Ahead(NamedTuple):
    """What lies before a group in a partition, as far as offsets tell."""

    committed: int
    held: OffsetRange
    unread: Unread


class LagMeter:
    """Measures lag; remembers what it has read, so that an idle group costs no reading.

    One measurement asks for all groups' states, each group's offsets and all ends in a few batched
    requests, and reads one record for each place a group has newly got to. Without `time` nothing
    is read: then there is no lag in time, and offsets that hold no record count as records.
    """

    def __init__(
        self,
        source: LagSource,
        *,
        isolation_of: IsolationOf = isolation_by(()),  # noqa: B008 - has no state
        time: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._source = source
        self._isolation_of = isolation_of
        self._clock: Clock = clock or SystemClock()
        self._unread = FirstUnread(source, self._clock) if time else None

    def measure(self, names: Collection[str] = ()) -> LagSample:
        """The lag of these groups, or of all; UnknownGroup if one does not exist."""
        groups = {each.name: each for each in self._source.groups()}
        for name in names:
            if name not in groups:
                raise UnknownGroup(name)
        alive = self._source.partitions()
        committed = {
            name: self._source.committed(name, alive)
            for name in groups
            if not names or name in names
        }
        lags = self.lags(committed)
        return LagSample(
            self._clock.now_ms(),
            tuple(
                GroupLag(
                    name,
                    groups[name].state,
                    groups[name].protocol,
                    self._isolation_of(name),
                    lags[name],
                )
                for name in committed
            ),
        )

    def lags(
        self, committed: Mapping[str, Mapping[Partition, int]]
    ) -> dict[str, tuple[PartitionLag, ...]]:
        """The lag of groups whose committed offsets are known, in partitions that are there."""
        ranges = self._ranges(committed)
        ahead = {
            group: [
                _ahead(self._isolation_of(group), partition, offset, ranges)
                for partition, offset in sorted(offsets.items())
            ]
            for group, offsets in committed.items()
        }
        first: dict[Unread, FirstRecord | None] = {}
        if self._unread is not None:
            first = self._unread.find([each.unread for group in ahead.values() for each in group])
        now_ms = self._clock.now_ms()
        return {
            group: tuple(_lag(each, first, now_ms) for each in partitions)
            for group, partitions in ahead.items()
        }

    def _ranges(self, committed: Mapping[str, Mapping[Partition, int]]) -> _Ranges:
        partitions: dict[Isolation, set[Partition]] = {}
        for group, offsets in committed.items():
            partitions.setdefault(self._isolation_of(group), set()).update(offsets)
        return {
            isolation: self._source.ranges(sorted(each), isolation)
            for isolation, each in partitions.items()
        }


def _ahead(isolation: Isolation, partition: Partition, committed: int, ranges: _Ranges) -> _Ahead:
    held = ranges[isolation][partition]
    unread = Unread(isolation, partition, held.clamp(committed), held.latest)
    return _Ahead(committed, held, unread)


def _lag(ahead: _Ahead, first: Mapping[Unread, FirstRecord | None], now_ms: int) -> PartitionLag:
    unread = ahead.unread
    records, time_ms = unread.end - unread.start, None
    if unread in first:
        record = first[unread]
        if record is None or record.offset >= unread.end:
            records, time_ms = 0, 0
        else:
            records = unread.end - record.offset
            if record.timestamp is not None:
                time_ms = max(now_ms - record.timestamp, 0)
    return PartitionLag(
        unread.partition, ahead.committed, *ahead.held, records=records, time_ms=time_ms
    )
