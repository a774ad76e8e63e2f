"""Where reading begins and ends: as people write it, and as offsets."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headrace.kafka import (
    AtOffset,
    AtTime,
    BeforeEnd,
    Earliest,
    Isolation,
    Latest,
    Partition,
    Position,
    parse_position,
)
from headrace.kafka.connection import Connection
from headrace.kafka.raw_positions import EARLIEST, LATEST, committed, list_offsets
from headrace.streams.source.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class GivenOffsets:
    """These offsets; in other partitions, all that is there."""

    offsets: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class CommittedBy:
    """Where a consumer group has got to; the beginning of partitions where it has not been."""

    group: str


Bound = Position | GivenOffsets | CommittedBy
"""One end of what is to be read."""


def parse_bound(text: str, *, now_ms: int) -> Bound:
    """Read an option such as "earliest", "2026-03-01T12:00", "group:billing" or JSON offsets.

    >>> parse_bound('{"orders": {"0": 42}}', now_ms=0)
    GivenOffsets(offsets={Partition(topic='orders', number=0): 42})
    """
    if text.startswith("group:"):
        return CommittedBy(text.removeprefix("group:").strip())
    if text.lstrip().startswith("{"):
        return GivenOffsets(_read_offsets(text))
    try:
        return parse_position(text, now_ms=now_ms)
    except ValueError as error:
        raise InvalidOption(
            f'{error}, group:NAME, or offsets such as {{"orders": {{"0": 42}}}}.'
        ) from None


def find_bound(
    connection: Connection,
    partitions: Iterable[Partition],
    bound: Bound,
    isolation: Isolation,
    *,
    otherwise: int = EARLIEST,
) -> dict[Partition, int]:
    """The offset of a bound in each partition.

    Offsets that were given or committed are not moved, even if their records are gone: whoever
    reads from there is to notice.
    """
    wanted = list(partitions)

    def find(timestamp: int, among: list[Partition] = wanted) -> dict[Partition, int]:
        return list_offsets(connection, among, timestamp, isolation=isolation)

    match bound:
        case Earliest():
            return find(EARLIEST)
        case Latest():
            return find(LATEST)
        case AtTime(timestamp):
            found = find(max(timestamp, 0))
            none_since = [each for each, offset in found.items() if offset < 0]
            return found | (find(LATEST, none_since) if none_since else {})
        case AtOffset(offset):
            latest = find(LATEST)
            return {
                each: min(max(offset, first), latest[each])
                for each, first in find(EARLIEST).items()
            }
        case BeforeEnd(count):
            latest = find(LATEST)
            return {
                each: max(latest[each] - count, first) for each, first in find(EARLIEST).items()
            }
        case GivenOffsets(given):
            return _complete(given, wanted, find, otherwise)
        case CommittedBy(group):
            return _complete(committed(connection, group, wanted), wanted, find, otherwise)


def _complete(
    known: Mapping[Partition, int],
    wanted: list[Partition],
    find: Callable[[int, list[Partition]], dict[Partition, int]],
    otherwise: int,
) -> dict[Partition, int]:
    unknown = [each for each in wanted if each not in known]
    found = {each: known[each] for each in wanted if each in known}
    return found | (find(otherwise, unknown) if unknown else {})


def _read_offsets(text: str) -> dict[Partition, int]:
    try:
        return {
            Partition(topic, int(number)): int(offset)
            for topic, offsets in json.loads(text).items()
            for number, offset in offsets.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise InvalidOption(
            f'{text} are no offsets; write {{"topic": {{"0": 42, "1": 7}}}}.'
        ) from None
