"""The first record that a group has not read yet, found by reading that one record, once."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headrace.clock import Clock
from headrace.kafka.first_records import FirstRecord
from headrace.kafka.positions import Isolation, Partition

_BELIEVED_SECONDS = 300.0
"""How long a record found is believed in: compaction and retention may remove it."""


class Unread(NamedTuple):
    """What lies before a group in a partition: from `start` up to, but not including, `end`."""

    isolation: Isolation
    partition: Partition
    start: int
    end: int


class Place(NamedTuple):
    """Where somebody who reads with some isolation has got to."""

    isolation: Isolation
    partition: Partition
    offset: int


class RecordSource(Protocol):
    """Where records are read."""

    def first_records(
        self, offsets: Mapping[Partition, int], isolation: Isolation
    ) -> dict[Partition, FirstRecord | None]:
        """The first record from each offset on; None where there is none, left out if unknown."""
        ...


@dataclass(frozen=True, slots=True)
class _Finding:
    """What was found from a place on: a record, or that there is none before `searched_to`."""

    record: FirstRecord | None
    searched_to: int
    found_at: float


class FirstUnread:
    """Finds first unread records and remembers them for as long as somebody asks."""

    def __init__(self, source: RecordSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._findings: dict[Place, _Finding] = {}

    def find(self, wanted: Collection[Unread]) -> dict[Unread, FirstRecord | None]:
        """The first record of each stretch, or None; stretches that nobody could read are left out.

        Reads only where something is unknown, one record per place.
        """
        ends = {_place(each): each.end for each in wanted}
        self._findings = {
            place: finding
            for place, finding in self._findings.items()
            if place in ends and self._is_believable(finding, ends[place])
        }
        now = self._clock.monotonic()
        unknown = {
            place: self._searched_to(place)
            for place, end in ends.items()
            if self._searched_to(place) < end and not self._is_found(place)
        }
        for isolation, places in _rounds(unknown):
            offsets = {place.partition: unknown[place] for place in places}
            answers = self._source.first_records(offsets, isolation)
            for place in places:
                if place.partition in answers:
                    record = answers[place.partition]
                    self._findings[place] = _Finding(record, ends[place], now)
        return {
            each: self._record(each)
            for each in wanted
            if each.start >= each.end or _place(each) in self._findings
        }

    def _record(self, wanted: Unread) -> FirstRecord | None:
        finding = self._findings.get(_place(wanted))
        return finding.record if finding is not None else None

    def _is_found(self, place: Place) -> bool:
        finding = self._findings.get(place)
        return finding is not None and finding.record is not None

    def _searched_to(self, place: Place) -> int:
        finding = self._findings.get(place)
        return place.offset if finding is None else finding.searched_to

    def _is_believable(self, finding: _Finding, end: int) -> bool:
        # An end that went back belongs to another topic of the same name.
        young = self._clock.monotonic() - finding.found_at < _BELIEVED_SECONDS
        return finding.searched_to <= end and (finding.record is None or young)


def _place(unread: Unread) -> Place:
    return Place(unread.isolation, unread.partition, unread.start)


def _rounds(places: Collection[Place]) -> Iterator[tuple[Isolation, list[Place]]]:
    """Places in rounds in which no partition occurs twice, because one reader has one position."""
    remaining = list(places)
    while remaining:
        isolation = remaining[0].isolation
        this_round: dict[Partition, Place] = {}
        later = []
        for place in remaining:
            if place.isolation is isolation and place.partition not in this_round:
                this_round[place.partition] = place
            else:
                later.append(place)
        yield isolation, list(this_round.values())
        remaining = later
