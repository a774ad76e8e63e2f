"""One query of a flow: started, watched, started again when it fails, given up at last."""

import logging
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.streams.outputs import Output
from headrace.streams.plan import sources
from headrace.streams.running.backoff import Backoff
from headrace.streams.running.branches import Told, into_branches
from headrace.streams.running.checkpoints import Checkpoint
from headrace.streams.running.failures import Cause, Failures, root_cause
from headrace.streams.running.gate import BatchGate, Closed
from headrace.streams.running.noting import ViewNotes
from headrace.streams.running.progress import QueryState, Tally
from headrace.streams.sinks.applying import foreach_batch, written
from headrace.streams.sinks.contract import AnySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.25
"""Between two looks at a query."""

_COMMIT_SECONDS = 5.0
"""How long Spark may take to note that a batch is done, before it is stopped regardless: the sink
knows the batch, and writes nothing when it comes again."""

py4j = logging.getLogger("py4j.clientserver")


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a query needs to start."""

    flow: str
    output: Output
    rows: "DataFrame"
    sink: AnySink
    checkpoint: Checkpoint
    mode: str = "append"
    told: Told | None = None
    """All outputs, with their sinks, if the rows are what an operator with state tells."""

    noting: ViewNotes | None = None
    """Who is told of each batch, if a view is made of it."""

    @property
    def name(self) -> str:
        """What Spark, the sink and the consumer group call it."""
        return f"{self.flow}.{self.output.name}"

    def writer(self, apply: "Callable[[DataFrame, int], None]") -> "DataStreamWriter":
        """The query, with what is done with its batches; whoever starts it chooses the trigger."""
        query = written(self.rows, self.sink) if self.told is None else self.rows
        return (
            query.writeStream.queryName(self.name)
            .option("checkpointLocation", self.checkpoint.spark_location)
            .outputMode(self.mode)
            .foreachBatch(apply)
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """When to try again, and when not."""

    tries: int
    backoff: Backoff
    once: bool = False
    reachable: Callable[[], bool] = lambda: True
    """Whether the cluster answers; a failure while it does not is not counted as a try."""


class QueryRun:
    """The life of one query during a run, in a thread of its own."""

    def __init__(self, prepared: Prepared, policy: Policy, tell: Callable[[str], None]) -> None:
        self._prepared = prepared
        self._policy = policy
        self._tell = tell
        self._stop = threading.Event()
        self._gate = BatchGate()
        self._raised: BaseException | None = None
        self._frames: tuple[str, ...] = ()
        self._read_everything = False
        py4j.addFilter(_without_what_is_told)
        self.tally = Tally(prepared.flow, prepared.output.name)
        """What it has done so far."""
        branches = () if prepared.told is None else prepared.told.branches
        others = (each.output.name for each in branches[1:])
        self.tallies = (self.tally, *(Tally(prepared.flow, each) for each in others))
        """The same for each of its outputs; all have read the same."""
        self.cause: Cause | None = None
        """Why it was given up, if it was."""
        self._thread = threading.Thread(target=self._live, name=prepared.name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Let the batch that is running be the last."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended, after waiting for that."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _live(self) -> None:
        prepared = self._prepared
        count = Failures()
        while not self._stop.is_set():
            try:
                self._run_until_it_ends()
                break
            except Exception as error:
                raised = self._raised or error
                cause = root_cause(raised)
                logger.debug("query %s: %s", prepared.name, cause.detail)
            if self._stop.is_set():
                if not isinstance(raised, Closed):
                    self._tell(f"{prepared.name} was cut short: {cause.message}")
                break
            passing = cause.passing or not self._policy.reachable()
            count = count.after(self._gate.entered, passing=passing)
            if count.tries >= self._policy.tries:
                self._give_up(cause, count.tries)
                return
            pause = self._policy.backoff.pause_seconds(count.in_a_row)
            self._becomes(QueryState.WAITING, cause.message)
            said = f"{prepared.name} failed: {cause.message} (next try in {pause:g} s)"
            self._tell_with_frames(said, cause)
            if self._stop.wait(pause):
                break
            for each in self.tallies:
                each.restarted()
        self._becomes(QueryState.FINISHED if self._read_everything else QueryState.STOPPED)

    def _tell_with_frames(self, message: str, cause: Cause) -> None:
        """Say it, with the lines of the user's code that it came through unless they were told."""
        frames = cause.frames if cause.frames != self._frames else ()
        self._frames = cause.frames
        self._tell("\n".join((message, *frames)))

    def _give_up(self, cause: Cause, tries: int) -> None:
        prepared, batch = self._prepared, self._gate.entered
        place = "it did not get as far as a batch"
        if batch is not None:
            place = f"batch {batch} reads {prepared.checkpoint.input_range(batch)}"
        often = "1 try" if tries == 1 else f"{tries} tries"
        message = f"{prepared.name} is given up after {often}: {cause.message} ({place})"
        self.cause = Cause(cause.kind, message, cause.detail)
        self._becomes(QueryState.GIVEN_UP, message)
        self._tell_with_frames(message, cause)

    def _run_until_it_ends(self) -> None:
        self._raised = None
        query = self._started()
        self._becomes(QueryState.RUNNING)
        try:
            while not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]
                self._look_at(query)
                if self._stop.is_set():
                    self._end(query)
                    return
            self._read_everything = self._policy.once
        finally:
            self._look_at(query)
            if query.isActive:
                query.stop()

    def _started(self) -> "StreamingQuery":
        prepared = self._prepared
        apply = self._applying()

        def apply_batch(rows: "DataFrame", number: int) -> None:
            try:
                with self._gate.batch(number):
                    apply(rows, number)
                    if prepared.noting is not None:
                        prepared.noting.note(number)
            except BaseException as error:
                # Spark would hand it on as text, in the middle of Java's.
                self._raised = error
                raise

        writer = prepared.writer(apply_batch)
        if self._policy.once:
            writer = writer.trigger(availableNow=True)
        return writer.start()

    def _applying(self) -> "Callable[[DataFrame, int], None]":
        prepared = self._prepared
        if prepared.told is None:
            return foreach_batch(prepared.sink, prepared.name, self.tally.applied)
        tallies = {each.now.output: each for each in self.tallies}
        return into_branches(
            prepared.told,
            prepared.name,
            lambda output, applied: tallies[output.name].applied(applied),
            self.tally.heard,
        )

    def _becomes(self, state: QueryState, error: str | None = None) -> None:
        for each in self.tallies:
            each.becomes(state, error)

    def _look_at(self, query: "StreamingQuery") -> None:
        before = self.tally.now.rejected
        for each in self.tallies:
            each.look_at(query)
        if not before and (rejected := self.tally.now.rejected):
            self._tell(f"{self._prepared.name}: {_rejected(rejected, self._prepared.output)}")

    def _end(self, query: "StreamingQuery") -> None:
        """Wait for the batch that is running and for Spark's note of it, then stop."""
        self._gate.close()
        deadline = time.monotonic() + _COMMIT_SECONDS
        while query.isActive and time.monotonic() < deadline:
            last = query.lastProgress
            if self._gate.entered is None or (last and last.batchId >= self._gate.entered):
                break
            time.sleep(0.02)
        query.stop()


def _rejected(count: int, output: Output) -> str:
    """What becomes of the first records that do not parse; later ones are only counted."""
    reads = [each for each in sources(output.node) if each.options.get("on_error") == "skip"]
    of = ", ".join(dict.fromkeys(name for each in reads for name in each.topics))
    letters = dict.fromkeys(each.dead_letters for each in reads if each.dead_letters)
    records, they = ("1 record", "it") if count == 1 else (f"{count:,} records", "they")
    go = ("goes" if count == 1 else "go") + f" to {', '.join(letters)}"
    skipped = f"{'is' if count == 1 else 'are'} skipped"
    where = f" of {of}" if of else ""
    return f"{records}{where} did not parse; {they} {go if letters else skipped}."


def _without_what_is_told(record: logging.LogRecord) -> bool:
    """Leave out what py4j says of a batch that failed: `QueryRun` has it, and tells it itself."""
    error = record.exc_info[1] if record.exc_info else None
    frames = traceback.walk_tb(None if error is None else error.__traceback__)
    return all(frame.f_globals.get("__name__") != __name__ for frame, _ in frames)
