"""A cluster that exists only in a test's imagination, as the lag meter sees one."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.kafka import GroupSummary, Isolation, OffsetRange, Partition
from headrace.kafka.first_records import FirstRecord

ORDERS = Partition("orders", 0)


@dataclass
class ImaginaryLog:
    """A partition: where it starts and ends, how far it is stable, and which records it has."""

    records: dict[int, int]
    """Timestamps by offset; other offsets hold nothing that anybody could read."""
    end: int
    start: int = 0
    stable: int | None = None

    def range(self, isolation: Isolation) -> OffsetRange:
        committed = isolation is Isolation.READ_COMMITTED and self.stable is not None
        return OffsetRange(self.start, self.stable if committed else self.end)  # type: ignore[arg-type]


@dataclass
class ImaginaryCluster:
    """Answers the meter's questions and remembers which records it was asked for."""

    logs: dict[Partition, ImaginaryLog] = field(default_factory=dict)
    offsets: dict[str, dict[Partition, int]] = field(default_factory=dict)
    reads: list[tuple[Partition, int, Isolation]] = field(default_factory=list)
    unreadable: set[Partition] = field(default_factory=set)

    def groups(self) -> list[GroupSummary]:
        return [GroupSummary(name, "stable", "classic") for name in sorted(self.offsets)]

    def partitions(self) -> list[Partition]:
        return sorted(self.logs)

    def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {each: at for each, at in self.offsets[group].items() if each in partitions}

    def ranges(
        self, partitions: Collection[Partition], isolation: Isolation
    ) -> dict[Partition, OffsetRange]:
        return {each: self.logs[each].range(isolation) for each in partitions}

    def first_records(
        self, offsets: Mapping[Partition, int], isolation: Isolation
    ) -> dict[Partition, FirstRecord | None]:
        found: dict[Partition, FirstRecord | None] = {}
        for partition, offset in offsets.items():
            self.reads.append((partition, offset, isolation))
            if partition in self.unreadable:
                continue
            log = self.logs[partition]
            end = log.range(isolation).latest
            readable = [each for each in sorted(log.records) if offset <= each < end]
            found[partition] = (
                FirstRecord(readable[0], log.records[readable[0]]) if readable else None
            )
        return found
