"""From a history to the promises that it shows broken.

`check` is a pure function. It reports nothing that a correct log could have produced: an operation
whose outcome is unknown may have happened or not, at any time since it was begun. What it looks for
follows the anomalies that Jepsen's Kafka workload names.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tests.chaos.history import (
    Calm,
    Committed,
    History,
    Isolation,
    Misled,
    Outcome,
    Record,
    Resumed,
    Stuck,
    Watermark,
)
from tests.chaos.observations import Fate, Observations


class Promise(StrEnum):
    """What a log promises; an anomaly is named after the one it breaks."""

    LOST_WRITE = "lost write"
    """An acknowledged record is not there in the end."""
    VANISHED_READ = "vanished read"
    """A record that somebody has read is not there in the end."""
    DUPLICATE = "duplicate"
    """A record that was sent once is there twice."""
    ABORTED_READ = "aborted read"
    """A reader of committed records saw one of an aborted transaction, or a refused one."""
    DIRTY_READ = "dirty read"
    """A reader of committed records saw one before anybody asked for the commit."""
    TORN_TRANSACTION = "torn transaction"
    """One part of a transaction is there in the end, and another is not."""
    UNWRITTEN_READ = "unwritten read"
    """A reader saw a record that nobody had sent yet."""
    REORDERED = "reordered"
    """Records of one producer stand in a partition in another order than they were sent in."""
    CONTRADICTION = "contradiction"
    """Two clients were told different things of one offset."""
    OFFSET_WENT_BACK = "offset went back"
    """A partition's end, or an offset that was acknowledged, is lower than it was before."""
    NONMONOTONIC_POLL = "nonmonotonic poll"
    """A reader was given an offset that it had passed already."""
    SKIPPED_READ = "skipped read"
    """A reader was not given a record between two that it was given."""
    LOST_COMMIT = "lost commit"
    """A group goes on before the position that was acknowledged to it."""
    HANGING_TRANSACTION = "hanging transaction"
    """Readers of committed records are held back for longer than any transaction may take."""
    UNAVAILABLE = "unavailable"
    """The broker does not serve although nothing is wrong any more."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken promise, with what shows it."""

    promise: Promise
    evidence: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.evidence}"


Check = Callable[[Observations], Iterator[Anomaly]]


def check(history: History) -> list[Anomaly]:
    """All promises that a history shows broken."""
    seen = Observations(history)
    return [anomaly for each in CHECKS for anomaly in each(seen)]


def acknowledged_records_are_there(seen: Observations) -> Iterator[Anomaly]:
    """Everything acknowledged is read in the end."""
    if not seen.has_final(Isolation.COMMITTED):
        return
    there = {record.value for record in seen.final(Isolation.COMMITTED)}
    for value, send in seen.sends.items():
        if seen.acknowledged(value) and value not in there and seen.reachable(value):
            delivery = seen.deliveries[value]
            yield Anomaly(
                Promise.LOST_WRITE,
                f"{value} of {send.process} was acknowledged at {delivery.time:.3f} s with offset "
                f"{delivery.offset} of partition {send.partition}",
            )


def what_was_read_stays(seen: Observations) -> Iterator[Anomaly]:
    """Whatever one reader saw, the last readers of that kind see."""
    for isolation in Isolation:
        if not seen.has_final(isolation):
            continue
        there = set(seen.final(isolation))
        reported: set[Record] = set()
        for reading in seen.readings:
            if reading.session.isolation is not isolation:
                continue
            for record in set(reading.records()) - there - reported:
                reported.add(record)
                if record.value in seen.sends and not seen.reachable(record.value):
                    continue
                yield Anomaly(
                    Promise.VANISHED_READ,
                    f"{_name(record)} was read by {reading.session.process} ({isolation})",
                )


def records_are_there_once(seen: Observations) -> Iterator[Anomaly]:
    """No record stands at two offsets."""
    offsets: dict[tuple[int, str], set[int]] = defaultdict(set)
    for reading in seen.readings:
        for record in reading.records():
            offsets[record.partition, record.value].add(record.offset)
    for (partition, value), places in offsets.items():
        if len(places) > 1:
            yield Anomaly(
                Promise.DUPLICATE, f"{value} is in partition {partition} at {sorted(places)}"
            )


def committed_reads_are_clean(seen: Observations) -> Iterator[Anomaly]:
    """Readers of committed records see no record before its commit, and none that was aborted."""
    reported = set()
    for reading in seen.readings:
        for poll in reading.polls:
            for record in poll.records:
                send = seen.sends.get(record.value)
                if send is None or send.time > poll.time:
                    yield Anomaly(Promise.UNWRITTEN_READ, f"{_name(record)}, by {poll.process}")
                    continue
                if reading.session.isolation is Isolation.UNCOMMITTED or record in reported:
                    continue
                if seen.refused(record.value):
                    reported.add(record)
                    yield Anomaly(
                        Promise.ABORTED_READ,
                        f"{_name(record)} of {send.transaction}, by {poll.process}",
                    )
                elif send.transaction and seen.ends[send.transaction].time > poll.time:
                    reported.add(record)
                    yield Anomaly(
                        Promise.DIRTY_READ,
                        f"{_name(record)} by {poll.process} at {poll.time:.3f} s; the commit of "
                        f"{send.transaction} began at {seen.ends[send.transaction].time:.3f} s",
                    )


def transactions_are_whole(seen: Observations) -> Iterator[Anomaly]:
    """In the end, either all acknowledged records of a transaction are there, or none is."""
    if not seen.has_final(Isolation.COMMITTED):
        return
    there = {record.value for record in seen.final(Isolation.COMMITTED)}
    for transaction, values in seen.values_of.items():
        if seen.fate(transaction) is Fate.ABORTED:
            continue
        found = [value for value in values if value in there]
        # A commit promises nothing of a record whose own delivery failed.
        missing = [
            value
            for value in values
            if value not in there and seen.delivered(value) and seen.reachable(value)
        ]
        if found and missing:
            yield Anomaly(
                Promise.TORN_TRANSACTION,
                f"{transaction} ({seen.fate(transaction)}): {found[0]} is there and {missing[0]} "
                f"is not; {len(found)} and {len(missing)} in all",
            )


def producers_keep_their_order(seen: Observations) -> Iterator[Anomaly]:
    """The records of one producer stand in a partition as they were sent."""
    sent_as = {value: number for number, value in enumerate(seen.sends)}
    stored: dict[tuple[str, int], dict[int, Record]] = defaultdict(dict)
    for reading in seen.readings:
        for record in reading.records():
            if record.value in seen.sends:
                producer = seen.sends[record.value].process
                stored[producer, record.partition][record.offset] = record
    for (producer, _), records in stored.items():
        in_order = [records[offset] for offset in sorted(records)]
        for earlier, later in pairwise(in_order):
            if sent_as[earlier.value] > sent_as[later.value]:
                yield Anomaly(
                    Promise.REORDERED,
                    f"{producer} sent {later.value} first, but {_name(earlier)} stands before "
                    f"offset {later.offset}",
                )


def offsets_mean_one_thing(seen: Observations) -> Iterator[Anomaly]:
    """Nobody is told of another record at an offset than somebody else was."""
    told: dict[tuple[int, int], dict[str, str]] = defaultdict(dict)
    for value, delivery in seen.deliveries.items():
        if delivery.outcome is Outcome.OK and delivery.offset is not None:
            place = (seen.sends[value].partition, delivery.offset)
            told[place].setdefault(value, f"acknowledged to {delivery.process}")
    for reading in seen.readings:
        for partition, offset, value in reading.records():
            told[partition, offset].setdefault(value, f"read by {reading.session.process}")
    for (partition, offset), values in told.items():
        if len(values) > 1:
            stories = ", ".join(f"{value} ({how})" for value, how in sorted(values.items()))
            yield Anomaly(
                Promise.CONTRADICTION, f"partition {partition} offset {offset}: {stories}"
            )


def offsets_only_grow(seen: Observations) -> Iterator[Anomaly]:
    """A partition's end never falls, nor do the offsets given to one producer."""
    ends: dict[tuple[str, Isolation, int], Watermark] = {}
    for mark in seen.of(Watermark):
        key = (mark.process, mark.isolation, mark.partition)
        before = ends.get(key)
        if before is not None and mark.end < before.end:
            yield Anomaly(
                Promise.OFFSET_WENT_BACK,
                f"the end of partition {mark.partition} ({mark.isolation}) was {before.end} at "
                f"{before.time:.3f} s and {mark.end} at {mark.time:.3f} s",
            )
        ends[key] = mark
    last: dict[tuple[str, int], tuple[int, str]] = {}
    for value, send in seen.sends.items():
        delivery = seen.deliveries.get(value)
        if delivery is None or delivery.outcome is not Outcome.OK or delivery.offset is None:
            continue
        offset, earlier = last.get((send.process, send.partition), (-1, ""))
        if delivery.offset <= offset:
            yield Anomaly(
                Promise.OFFSET_WENT_BACK,
                f"{send.process} was given offset {offset} of partition {send.partition} for "
                f"{earlier} and then {delivery.offset} for {value}",
            )
        last[send.process, send.partition] = (delivery.offset, value)
    for misled in seen.of(Misled):
        yield Anomaly(Promise.OFFSET_WENT_BACK, f"{misled.process} was told: {misled.problem}")


def readers_move_forward(seen: Observations) -> Iterator[Anomaly]:
    """Within a session, offsets of a partition rise, and no record between two is left out."""
    there: dict[Isolation, dict[int, dict[int, Record]]] = {}
    for isolation in Isolation:
        there[isolation] = defaultdict(dict)
        for record in seen.final(isolation):
            there[isolation][record.partition][record.offset] = record
    for reading in seen.readings:
        isolation, process = reading.session.isolation, reading.session.process
        at: dict[int, int] = {}
        for record in reading.records():
            before = at.get(record.partition)
            at[record.partition] = record.offset
            if before is None:
                continue
            if record.offset <= before:
                yield Anomaly(
                    Promise.NONMONOTONIC_POLL,
                    f"{process} got {_name(record)} after offset {before}",
                )
            present = there[isolation][record.partition]
            for offset in range(before + 1, record.offset):
                if offset in present:
                    yield Anomaly(
                        Promise.SKIPPED_READ,
                        f"{process} ({isolation}) went from offset {before} to {record.offset} "
                        f"past {_name(present[offset])}",
                    )


def groups_keep_their_place(seen: Observations) -> Iterator[Anomaly]:
    """A member is never told to go on before a commit that was acknowledged before it asked."""
    committed: dict[tuple[str, int], list[Committed]] = defaultdict(list)
    for event in seen.of(Committed):
        if event.outcome is Outcome.OK:
            committed[event.group, event.partition].append(event)
    for resumed in seen.of(Resumed):
        for commit in committed[resumed.group, resumed.partition]:
            if commit.time < resumed.asked and commit.offset > resumed.offset:
                yield Anomaly(
                    Promise.LOST_COMMIT,
                    f"{resumed.process} goes on at offset {resumed.offset} of partition "
                    f"{resumed.partition}; {resumed.group} had committed {commit.offset}",
                )
                break


def the_broker_serves_again(seen: Observations) -> Iterator[Anomaly]:
    """After the faults, everything works, and no transaction holds readers back."""
    timeouts = [calm.timeout for calm in seen.of(Calm)]
    for stuck in seen.of(Stuck):
        if stuck.partition is None:
            yield Anomaly(Promise.UNAVAILABLE, f"{stuck.process}: {stuck.what}")
        else:
            yield Anomaly(
                Promise.HANGING_TRANSACTION,
                f"partition {stuck.partition}: {stuck.what}; transactions end within {timeouts} s",
            )


CHECKS: tuple[Check, ...] = (
    acknowledged_records_are_there,
    what_was_read_stays,
    records_are_there_once,
    committed_reads_are_clean,
    transactions_are_whole,
    producers_keep_their_order,
    offsets_mean_one_thing,
    offsets_only_grow,
    readers_move_forward,
    groups_keep_their_place,
    the_broker_serves_again,
)
"""Everything that is looked for."""


def _name(record: Record) -> str:
    return f"{record.value} (partition {record.partition}, offset {record.offset})"
