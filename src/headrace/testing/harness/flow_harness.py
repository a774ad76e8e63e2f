"""`FlowHarness`: a flow whose events, batches, clock and crashes a test decides about."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from headrace.clock import Clock
from headrace.kafka import Partition
from headrace.settings.units import parse_duration
from headrace.streams.errors import InvalidFlow
from headrace.streams.names import did_you_mean
from headrace.streams.outputs import Output, SinkOutput, StoreOutput, queries_of, query_names
from headrace.streams.plan import ReadTopics
from headrace.streams.session import stateful_session
from headrace.streams.stateful import operator_of
from headrace.testing.harness.clock import SharedClock
from headrace.testing.harness.collected import Collected, Record, collected
from headrace.testing.harness.crashes import KillPoint, kill_point
from headrace.testing.harness.errors import (
    FlowDied,
    HarnessClosed,
    HarnessError,
    StepFailed,
    UnknownTopicOrOutput,
)
from headrace.testing.harness.events import (
    Event,
    Headers,
    Key,
    SentRecord,
    Time,
    headers_of,
    key_of,
    milliseconds,
    value_of,
)
from headrace.testing.harness.query import HarnessQuery
from headrace.testing.harness.script import Script
from headrace.testing.harness.source import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.streams.flow import Flow

BEGINNING = "2026-01-01T00:00:00Z"
"""What time it is when a test begins, unless it says otherwise."""

_Place: TypeAlias = tuple[Path, int]
"""A row that was written: its file, and its number there."""


class FlowHarness:
    """Runs a flow without a cluster, one batch at a time.

        with FlowHarness(flow) as harness:
            harness.send("orders", {"customer": "ada", "price": 250.0})
            harness.step()
            assert harness.rows("large-orders") == [{"customer": "ada", "price": 250.0}]

    The flow's own description is compiled, decoded by its formats, run by Spark on checkpoints, and
    written through the contract of sinks; only the cluster is missing. Rows for sinks of yours are
    collected, and the sinks themselves are left alone.

    `now` is the time at which the clock stands until it is advanced. `tasks` is the number of
    partitions in which Spark reads a step; with one, rows come in the order of their topics'
    partitions and offsets.
    """

    def __init__(
        self,
        flow: "Flow",
        *,
        spark: "SparkSession | None" = None,
        now: Time = BEGINNING,
        tasks: int = 1,
    ) -> None:
        if not flow.outputs:
            raise InvalidFlow(
                f"Flow {flow.name} writes nothing; add an output such as flow.topic(name, stream)."
            )
        self._flow = flow
        self._spark = spark
        self._now = now
        self._tasks = tasks
        self._script = Script()
        self._queries: dict[str, HarnessQuery] = {}
        self._resources = ExitStack()
        self._clock: SharedClock | None = None
        self._dead: str | None = None
        self._taken: set[_Place] = set()
        self._returned: set[_Place] = set()

    @property
    def flow(self) -> "Flow":
        """What runs, as it was last started."""
        return self._flow

    @property
    def clock(self) -> Clock:
        """The flow's clock, in every process of it; only `advance` moves it."""
        return self._open_clock()

    def send(
        self,
        topic: str,
        *events: Event,
        key: Key = None,
        headers: Headers | None = None,
        partition: int = 0,
        offset: int | None = None,
        timestamp: Time | None = None,
    ) -> None:
        """Append events to a topic that the flow reads; the next step reads them.

        Args:
            topic: One that the flow reads.
            events: Rows as dicts, values as bytes or text, or None for a tombstone. A field of a
                row that is no column is refused; in bytes it is what it is in a real topic.
            key: The key of each; of rows of a table, their own unless this says otherwise.
            headers: The headers of each.
            partition: Where they go.
            offset: The first one's offset, if not the next of the partition; may leave a gap.
            timestamp: Their time as records; without it, what the clock says.
        """
        clock = self._open_clock()
        reads = self._readers(topic)
        place = Partition(topic, partition)
        now = clock.now_ms() if timestamp is None else milliseconds(timestamp)
        records = []
        first = self._script.next_offset(place, offset)
        for number, event in enumerate(events):
            named = f"Event {number + 1} of {len(events)} for {place} (offset {first + number})"
            value = value_of(event, reads, named)
            records.append(
                SentRecord(
                    first + number, now, key_of(key, event, reads), value, headers_of(headers)
                )
            )
        for record in records:
            self._script.add(place, record)

    def step(self) -> None:
        """Run one batch of every query over all that was sent since the last one.

        A step in which nothing was sent is a batch without rows. Where Spark goes on by itself to
        close what a watermark has closed, the step includes that. Raises StepFailed with the cause
        if a query fails.
        """
        self._step(None)

    def run(self) -> int:
        """Step until everything that was sent is read; how many steps that took."""
        self._require_alive()
        steps = 0
        while self._script.waiting:
            self.step()
            steps += 1
        return steps

    def advance(self, duration: str) -> None:
        """Move the clock, as in `advance("10 seconds")`; nothing happens before the next step."""
        clock = self._open_clock()
        try:
            clock.advance(parse_duration(duration))
        except ValueError as error:
            raise HarnessError(f"advance: {error}") from None

    def kill(self, after: str | KillPoint | None = None) -> None:
        """Kill the flow: at once, or at a point of the next batch, which this then runs.

        `after` is what has just happened then: "read", "write", "first commit", "sink commit" or
        "commit" (see `KillPoint`). Every query dies at that point of its own batch.
        """
        point = None if after is None else kill_point(after)
        self._require_alive()
        if point is not None:
            self._step(point)
        self._stop("was killed")

    def restart(self, flow: "Flow | None" = None) -> None:
        """Start the flow again on what it has stored, and let it finish a batch that it died in.

        Give it an edited flow to see whether the edit can go on from there. A flow that is alive is
        stopped before.
        """
        self._open_clock()
        self._stop("was stopped")
        self._start(flow or self._flow)
        self._settle()
        self._dead = None
        self._return_topics()

    @property
    def waiting(self) -> int:
        """How many events were sent that no step has read."""
        return self._script.waiting

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of an output, or of a topic, as dicts of what its JSON says.

        The row of a tombstone has the columns of its key and `_deleted`. A dead letter is its
        value, the reason and where it was. Rows for sinks of your own have Python's types.
        """
        return [each.row for each in self._found(name).values()]

    def records(self, name: str) -> list[Record]:
        """All records of an output, or of a topic: keys, values, headers, times, partitions."""
        return [_record_of(name, each) for each in self._found(name).values()]

    def take(self, name: str) -> list[dict[str, Any]]:
        """The rows that are new since they were last taken."""
        return [each.row for each in self.take_collected(name)]

    def take_records(self, name: str) -> list[Record]:
        """The records that are new since they were last taken."""
        return [_record_of(name, each) for each in self.take_collected(name)]

    def take_collected(self, name: str) -> list[Collected]:
        """What is new since it was last taken: rows together with their records."""
        found = self._found(name)
        new = [each for place, each in found.items() if place not in self._taken]
        self._taken |= found.keys()
        return new

    def untaken(self) -> dict[str, list[Collected]]:
        """What nobody has taken, by the topic that it went to, or by the output if to none."""
        left: dict[str, list[Collected]] = {}
        for output, place, each in self._all():
            if place not in self._taken:
                name = output.name if each.record is None else each.record.topic
                left.setdefault(name, []).append(each)
        return left

    def close(self) -> None:
        """Stop every query, and forget everything."""
        for query in self._queries.values():
            query.stop()
        self._clock = None
        self._resources.close()

    def __enter__(self) -> Self:
        directory = Path(
            self._resources.enter_context(tempfile.TemporaryDirectory(prefix="headrace-harness-"))
        )
        self._clock = SharedClock.starting_at(milliseconds(self._now, "now"), directory / "clock")
        spark = self._spark or self._flow.spark
        self._queries = {
            each.name: HarnessQuery(
                _feed(spark, each, self._tasks), directory / each.name, self._clock
            )
            for each, *_ in queries_of(self._flow.outputs)
        }
        try:
            self._start(self._flow)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _start(self, flow: "Flow") -> None:
        """Start every query of a flow; what is refused leaves the flow as it was, and stopped."""
        for output, *_ in queries_of(flow.outputs):
            if output.name not in self._queries:
                raise HarnessError(
                    f"The output {output.name} was not there when the harness began; begin a new "
                    "one, since this one has no record of what the output would have read."
                )
        try:
            for outputs in queries_of(flow.outputs):
                self._queries[outputs[0].name].start(flow, outputs)
        except BaseException:
            self._stop("was refused")
            raise
        self._flow = flow

    def _stop(self, reason: str) -> None:
        for query in self._queries.values():
            query.stop()
        self._dead = reason

    def _step(self, dies_after: KillPoint | None) -> None:
        self._require_alive()
        step = self._script.take(self._open_clock().now_ms())
        for query in self._queries.values():
            query.dies_after(dies_after)
            query.feed(step)
        self._settle()
        for query in self._queries.values():
            query.dies_after(None)
        self._return_topics()

    def _settle(self) -> None:
        try:
            for query in self._queries.values():
                query.settle()
        except StepFailed as failure:
            self._stop(f"has failed ({failure})")
            raise

    def _return_topics(self) -> None:
        """What the flow has written to topics that it reads is there for its next step."""
        for _, place, each in self._all():
            if place not in self._returned:
                self._returned.add(place)
                self._return(each.record)

    def _return(self, record: Record | None) -> None:
        if record is None or not any(_wants(each, record.topic) for each in self._flow.reads):
            return
        place = Partition(record.topic, record.partition)
        written_ms = round(record.timestamp.timestamp() * 1000)
        headers = tuple(record.headers.items())
        offset = self._script.next_offset(place)
        sent = SentRecord(offset, written_ms, record.key, record.value, headers)
        self._script.add(place, sent)

    def _all(self) -> Iterator[tuple[Output, _Place, Collected]]:
        """All that was written, output by output, batch by batch, and where it is."""
        self._open_clock()
        names = query_names(self._flow.outputs)
        for output in self._flow.outputs:
            for part in self._queries[names[output]].parts(output.name):
                for number, each in enumerate(collected(output, part)):
                    yield output, (part.path, number), each

    def _found(self, name: str) -> dict[_Place, Collected]:
        found, known = {}, set[str]()
        for output, place, each in self._all():
            names = {output.name} if each.record is None else {output.name, each.record.topic}
            known |= names
            if name in names:
                found[place] = each
        declared = [each for output in self._flow.outputs for each in _declared(output)]
        if name not in known.union(declared):
            raise UnknownTopicOrOutput(
                f"Flow {self._flow.name} has no output {name}; "
                f"{did_you_mean(name, dict.fromkeys(declared))}"
            )
        return found

    def _readers(self, topic: str) -> list[ReadTopics]:
        reads = self._flow.reads
        found = [each for each in reads if _wants(each, topic)]
        if not found:
            known = sorted(
                {name for each in reads for name in each.topics or (each.pattern or "",)}
            )
            raise UnknownTopicOrOutput(
                f"Flow {self._flow.name} does not read the topic {topic}; "
                f"{did_you_mean(topic, known)}"
            )
        return found

    def _require_alive(self) -> None:
        self._open_clock()
        if self._dead is not None:
            raise FlowDied(
                f"Flow {self._flow.name} {self._dead}; call harness.restart() before it goes on."
            )

    def _open_clock(self) -> SharedClock:
        if self._clock is None:
            raise HarnessClosed(
                f"The harness of flow {self._flow.name} is not open; use it inside of "
                "`with FlowHarness(flow) as harness:`."
            )
        return self._clock


def _feed(spark: "SparkSession", output: Output, tasks: int) -> Feed:
    """What a query reads, in a session that can keep its state."""
    return Feed(spark if operator_of(output.node) is None else stateful_session(spark), tasks)


def _wants(read: ReadTopics, topic: str) -> bool:
    if read.pattern is not None:
        return re.fullmatch(read.pattern, topic) is not None
    return topic in read.topics


def _declared(output: Output) -> tuple[str, ...]:
    """What an output can be asked for by."""
    if isinstance(output, SinkOutput | StoreOutput):
        return (output.name,)
    return (output.name, output.topic)


def _record_of(name: str, found: Collected) -> Record:
    if found.record is None:
        raise HarnessError(
            f"The output {name} goes to a sink of yours and not to a topic, so it has rows and no "
            "records; look at harness.rows."
        )
    return found.record
