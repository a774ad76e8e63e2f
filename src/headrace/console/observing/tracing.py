"""The way of one record: from the commit that made it to the views that it changed.

Nothing is written for this. A change of a row says itself when and where it was committed; flows
tell which batch has read which offsets; and what a batch has written are the records that appeared
in its output while it ran. Among those, the one with the same key, or the same field, is what has
become of the record. Where several records become one there is no such key, and the trace says so.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.console.observing.decoding import Decoder
from headrace.console.observing.flows import BatchSeen, FlowsSample
from headrace.console.observing.messages import read_record
from headrace.console.observing.records import RecordSeen, record_seen
from headrace.console.observing.views import ViewRow, ViewsSample
from headrace.console.wording import link
from headrace.errors import HeadraceError
from headrace.kafka import (
    AtTime,
    Cluster,
    Latest,
    Partition,
    Reader,
    find_offsets,
    partitions_of,
)

_DEEPEST: Final = 4
"""Flows behind each other that are followed, in either direction."""

_SCANNED: Final = 5_000
"""Records that are looked at for one that belongs to another."""

_SEARCH_SECONDS: Final = 4.0
_SLACK_MS: Final = 2_000
"""By which the clocks of brokers and flows may differ."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One station."""

    kind: str
    """commit, capture, topic, flow or view."""

    title: str
    detail: str
    at_ms: int | None
    href: str = ""
    missing: bool = False
    """Whether it is expected here, and was not found."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What led to a record, the record itself, and what has become of it, branch by branch."""

    before: tuple[Hop, ...] = ()
    record: RecordSeen | None = None
    after: tuple[tuple[Hop, ...], ...] = ()

    @property
    def began_ms(self) -> int | None:
        """When it all began."""
        known = [each.at_ms for each in self.before if each.at_ms is not None]
        own = self.record.timestamp if self.record else None
        return min(known, default=own)


@dataclass(slots=True)
class Tracer:
    """Follows records through what was observed."""

    cluster: Cluster
    decoder: Decoder
    flows: FlowsSample
    views: ViewsSample = field(default_factory=ViewsSample)

    def trace(self, topic: str, partition: int, offset: int) -> Trace:
        """The way of a record; without one if it is gone. ClusterError if nobody answers."""
        record = read_record(self.cluster, topic, partition, offset, self.decoder)
        if record is None:
            return Trace()
        before = tuple(self._before(record, _DEEPEST))
        return Trace(before, record, tuple(self._after(record, _DEEPEST)))

    def _before(self, record: RecordSeen, depth: int) -> Iterator[Hop]:
        """Where a record came from, the earliest first."""
        if record.value.change is not None:
            yield from _commit(record)
            return
        written = self._written_by(record)
        if written is None or depth == 0:
            return
        batch = written
        source = self._source_of(record, batch)
        if source is not None:
            yield from self._before(source, depth - 1)
            yield _lies(source)
        yield _batch_hop(batch)

    def _written_by(self, record: RecordSeen) -> BatchSeen | None:
        """The batch that wrote a record: the one of that output that was running then."""
        outputs = {
            (flow.title, output["output"])
            for flow in self.flows.rows.values()
            for output in flow.outputs
            if output["writes"] == record.topic or record.topic in output["dead_letters"]
        }
        at = record.timestamp or 0
        found = [
            each
            for each in self.flows.batches
            if (each.flow, each.output) in outputs
            and each.started_ms - _SLACK_MS <= at <= each.ended_ms + _SLACK_MS
        ]
        return min(found, key=lambda each: _distance(each, at), default=None)

    def _source_of(self, record: RecordSeen, batch: BatchSeen) -> RecordSeen | None:
        """The last record of a batch's input that has the key of what it wrote."""
        found: RecordSeen | None = None
        for topic, partitions in batch.reads.items():
            ranges = {Partition(topic, int(each)): bounds for each, bounds in partitions.items()}
            for candidate in self._scan(ranges):
                if related(candidate, record):
                    found = candidate
        return found

    def _after(self, record: RecordSeen, depth: int) -> Iterator[tuple[Hop, ...]]:
        """What has become of a record: a branch for every output that read it."""
        for view in self.views.rows.values():
            if view.topic == record.topic:
                yield (_view_hop(view, record),)
        for flow in self.flows.rows.values():
            for output in flow.outputs:
                if record.topic in output["reads"] and depth:
                    yield from self._through(record, flow.title, output, depth)

    def _through(
        self, record: RecordSeen, flow: str, output: Mapping[str, Any], depth: int
    ) -> Iterator[tuple[Hop, ...]]:
        name = f"{flow}.{output['output']}"
        batch = next(
            (
                each
                for each in self.flows.batches
                if (each.flow, each.output) == (flow, output["output"])
                and each.has_read(record.topic, record.partition, record.offset)
            ),
            None,
        )
        if batch is None:
            detail = "not read yet, or by a batch so long ago that it is no longer remembered"
            yield (Hop("flow", f"flow {name}", detail, None, f"/flow?title={flow}", missing=True),)
            return
        hop = _batch_hop(batch)
        topic = output["writes"]
        if topic is None:
            sink = output["sink"] or "a sink"
            yield (hop, Hop("sink", f"written to {sink}", "in the same batch", batch.ended_ms))
            return
        written = self._written(record, topic, batch)
        if written is None:
            detail = "no record of this batch has its key: it may be a part of one, or left out"
            yield (hop, Hop("topic", topic, detail, None, f"/topics/{topic}", missing=True))
            return
        lies = _lies(written)
        further = list(self._after(written, depth - 1)) if depth > 1 else []
        if not further:
            yield (hop, lies)
        for branch in further:
            yield (hop, lies, *branch)

    def _written(self, record: RecordSeen, topic: str, batch: BatchSeen) -> RecordSeen | None:
        """What a batch wrote for a record."""
        try:
            partitions = partitions_of(self.cluster, topic)
        except HeadraceError:
            return None
        start = find_offsets(self.cluster, partitions, AtTime(batch.started_ms - _SLACK_MS))
        end = find_offsets(self.cluster, partitions, Latest())
        latest = batch.ended_ms + _SLACK_MS
        found: RecordSeen | None = None
        for candidate in self._scan({each: (start[each], end[each]) for each in partitions}):
            if (candidate.timestamp or 0) <= latest and related(record, candidate):
                found = candidate
        return found

    def _scan(self, ranges: Mapping[Partition, tuple[int, int]]) -> Iterator[RecordSeen]:
        """Records between offsets, at most so many and for so long."""
        wanted = {each: bounds for each, bounds in ranges.items() if bounds[0] < bounds[1]}
        if not wanted:
            return
        begins = find_offsets(self.cluster, wanted, AtTime(0))
        start = {each: max(first, begins[each]) for each, (first, _) in wanted.items()}
        end = {each: last for each, (_, last) in wanted.items()}
        scanned, deadline = 0, time.monotonic() + _SEARCH_SECONDS
        with Reader(self.cluster, start, end=end) as reader:
            for batch in reader.batches():
                for message in batch:
                    yield record_seen(message, self.decoder)
                scanned += len(batch)
                if scanned >= _SCANNED or time.monotonic() > deadline:
                    return


def related(one: RecordSeen, other: RecordSeen) -> bool:
    """Whether two records are about the same thing: by their keys, or a field of the same name."""
    if one.raw_key is not None and one.raw_key == other.raw_key:
        return True
    mine, theirs = _identity(one), _identity(other)
    if mine and theirs and set(mine.values()) == set(theirs.values()):
        return True
    return _has(other, mine) or _has(one, theirs)


def _identity(record: RecordSeen) -> dict[str, str]:
    """The columns of a record's key, as text; a key that is no object has no name."""
    value = record.key.value
    if isinstance(value, dict):
        if {"schema", "payload"} <= value.keys() and isinstance(value["payload"], dict):
            value = value["payload"]
        return {str(name): str(each) for name, each in value.items()}
    return {"": record.key.text} if record.key.text else {}


def _has(record: RecordSeen, identity: Mapping[str, str]) -> bool:
    """Whether a record's row has all columns of a key, by their names or with the table's."""
    row = record.value.value
    if record.value.change is not None:
        row = record.value.change.after or record.value.change.before
    if not isinstance(row, dict) or not identity or "" in identity:
        return False
    return all(
        any(_is_called(field_name, name) and str(each) == value for field_name, each in row.items())
        for name, value in identity.items()
    )


def _is_called(field_name: str, name: str) -> bool:
    return field_name == name or field_name.endswith(f"_{name}")


def _commit(record: RecordSeen) -> Iterable[Hop]:
    change = record.value.change
    assert change is not None
    source = change.source
    table = ".".join(str(source[each]) for each in ("db", "schema", "table") if source.get(each))
    place = {each: source[each] for each in ("lsn", "file", "pos", "txId") if source.get(each)}
    where = ", ".join(f"{name} {each}" for name, each in place.items())
    committed = source.get("ts_ms")
    yield Hop(
        "commit",
        f"{change.verb} in {table}",
        where or "committed in the database",
        committed if isinstance(committed, int) else None,
        "/captures",
    )
    if isinstance(change.at_ms, int):
        name = str(source.get("name") or "")
        yield Hop(
            "capture", f"captured {name}".strip(), "read from its log", change.at_ms, "/captures"
        )


def _lies(record: RecordSeen) -> Hop:
    return Hop(
        "topic",
        record.topic,
        f"partition {record.partition}, offset {record.offset}",
        record.timestamp,
        f"/trace?topic={record.topic}&partition={record.partition}&offset={record.offset}",
    )


def _batch_hop(batch: BatchSeen) -> Hop:
    reads = sum(end - first for each in batch.reads.values() for first, end in each.values())
    return Hop(
        "flow",
        f"flow {batch.flow}.{batch.output}, batch {batch.number}",
        f"read {reads:,} records, done {batch.took_ms:,} ms later",
        batch.started_ms,
        f"/flow?title={batch.flow}",
    )


def _view_hop(view: ViewRow, record: RecordSeen) -> Hop:
    reflected = view.reflects(record.topic, record.partition, record.offset)
    detail = f"shows it; it is at {view.position}" if reflected else "does not show it yet"
    return Hop(
        "view", f"view {view.name}", detail, None, link("/view", name=view.name), not reflected
    )


def _distance(batch: BatchSeen, at: int) -> int:
    return abs((batch.started_ms + batch.ended_ms) // 2 - at)
