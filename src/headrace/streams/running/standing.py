"""How far the versions of flows have got, by their checkpoints and the ends of what they read."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.kafka import Isolation, Partition
from headrace.kafka.connection import Connection
from headrace.kafka.raw_positions import EARLIEST, LATEST, list_offsets
from headrace.streams.running.checkpoints import committed_in
from headrace.streams.running.holding import is_running
from headrace.streams.running.places import Place
from headrace.streams.running.registry import Registry, StoredOutput
from headrace.streams.versions import Version


@dataclass(frozen=True, slots=True)
class OutputStanding:
    """One output of a version."""

    name: str
    topic: str | None
    """The topic that it writes."""

    lag: int
    """Records that it has not read yet."""


@dataclass(frozen=True, slots=True)
class VersionStanding:
    """One version of a flow."""

    version: Version
    current: bool
    running: bool
    outputs: tuple[OutputStanding, ...]

    @property
    def lag(self) -> int:
        """Records that it has not read yet, by the output that is furthest behind."""
        return max((each.lag for each in self.outputs), default=0)


def standings(registry: Registry, root: Place, connection: Connection) -> Iterator[VersionStanding]:
    """Every version of every flow, by name."""
    for flow, stored in sorted(registry.flows.items()):
        for name in sorted(stored.versions):
            version = Version(flow, name)
            place = root.child(version.title)
            ends = ends_of(connection, stored.versions[name].values())
            yield VersionStanding(
                version,
                current=name == stored.current,
                running=is_running(place, version.title, connection.settings),
                outputs=tuple(
                    OutputStanding(
                        output, each.writes, lag_of(place, output, each, ends, connection)
                    )
                    for output, each in stored.versions[name].items()
                ),
            )


def ends_of(connection: Connection, outputs: Iterable[StoredOutput]) -> dict[Partition, int]:
    """Where the topics end that outputs read; those that are gone have no end."""
    found = connection.topics(None)
    outputs = list(outputs)
    read = {topic for each in outputs for topic in each.reads.values() if topic in found}
    patterns = [re.compile(each) for output in outputs for each in output.patterns]
    read |= {
        name
        for name, topic in found.items()
        if not topic.internal and any(each.fullmatch(name) for each in patterns)
    }
    partitions = [Partition(name, number) for name in read for number in found[name].leaders]
    return (
        list_offsets(connection, partitions, LATEST, isolation=Isolation.READ_COMMITTED)
        if partitions
        else {}
    )


def lag_of(
    place: Place,
    output: str,
    stored: StoredOutput,
    ends: Mapping[Partition, int],
    connection: Connection,
) -> int:
    """Records before `ends` that an output has not read; of what it never read, all there are."""
    position = committed_in(place.child(stored.query or output)) or {}
    mine = {each: end for each, end in ends.items() if _reads(stored, each.topic)}
    unread = [each for each, end in mine.items() if end > position.get(each, 0)]
    first = list_offsets(connection, unread, EARLIEST) if unread else {}
    return sum(mine[each] - max(position.get(each, 0), first[each]) for each in unread)


def _reads(stored: StoredOutput, topic: str) -> bool:
    return topic in stored.reads.values() or any(
        re.fullmatch(each, topic) for each in stored.patterns
    )
