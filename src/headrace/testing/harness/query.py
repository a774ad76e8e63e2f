"""One query of a flow in a harness: started, given a step, killed, and started again."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.clock import Clock
from headrace.streams.connectors import reading_through
from headrace.streams.outputs import Output
from headrace.streams.running.branches import into_branches, told
from headrace.streams.running.checkpoints import checkpoint_of
from headrace.streams.running.failures import root_cause
from headrace.streams.running.places import LocalPlace
from headrace.streams.running.query import Prepared
from headrace.streams.running.state import inputs_of, output_mode, state_shape
from headrace.streams.sinks.applying import foreach_batch
from headrace.streams.sinks.contract import Sink
from headrace.streams.stateful import operator_of
from headrace.streams.writing import compile_output
from headrace.testing.harness.collecting import CollectingSink, Part, parts
from headrace.testing.harness.crashes import DyingSink, Killed, KillPoint, dying
from headrace.testing.harness.errors import StepFailed
from headrace.testing.harness.source import Feed, ScriptedTopics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.streams.flow import Flow


class HarnessQuery:
    """What makes some outputs: its feed and its directory stay, its runs come and go."""

    def __init__(self, feed: Feed, directory: Path, clock: Clock) -> None:
        """Take what it reads, and where it keeps what it knows and what its outputs get."""
        self._feed = feed
        self._checkpoints = directory / "checkpoints"
        self._rows = directory / "rows"
        self._clock = clock
        self._query: StreamingQuery | None = None
        self._name = ""
        self._dies_after: KillPoint | None = None
        self._raised: BaseException | None = None

    def start(self, flow: "Flow", outputs: Sequence[Output]) -> None:
        """Run the outputs on the checkpoint that is there, which may not fit; refused if so."""
        prepared = self._prepared(flow, outputs)
        self._name = prepared.name
        self._raised = self._dies_after = None

        def apply_batch(rows: "DataFrame", number: int) -> None:
            try:
                self._apply(prepared, rows, number)
            except BaseException as error:
                # Spark would hand it on as text, in the middle of Java's.
                self._raised = error
                raise

        self._query = prepared.writer(apply_batch).start()

    def feed(self, step: Sequence[bytes]) -> None:
        """Let it have the next batch, which it begins at once."""
        self._feed.add(step)

    def dies_after(self, point: KillPoint | None) -> None:
        """Choose whether, and where, the next batch is its last."""
        self._dies_after = point

    def settle(self) -> None:
        """Wait until it has done all that it can, or has died as it was told to.

        An output that an edit has left out does not run, and waits for the edit to be undone.
        """
        if self._query is None:
            return
        try:
            self._query.processAllAvailable()
        except Exception as error:
            if isinstance(self._raised, Killed):
                return
            cause = root_cause(self._raised or error)
            raise StepFailed(f"{self._name} failed: {cause.message}") from None

    def stop(self) -> None:
        """End it between two batches."""
        if self._query is not None:
            self._query.stop()
            self._query = None

    def parts(self, output: str) -> list[Part]:
        """All that one of its outputs has got."""
        return parts(self._rows / output)

    def _prepared(self, flow: "Flow", outputs: Sequence[Output]) -> Prepared:
        output = outputs[0]
        checkpoint = checkpoint_of(flow.name, output, LocalPlace(self._checkpoints))
        checkpoint.check()
        connector = ScriptedTopics(self._feed.packed)
        sink = self._sink(output)
        with reading_through(connector):
            if (operator := operator_of(output.node)) is not None:
                found = told(operator, outputs, connector, self._sink, checkpoint.operators)
                checkpoint.check_plan(found.shape, inputs_of(found.tagged), found.operators)
                return Prepared(flow.name, output, found.tagged, sink, checkpoint, "update", found)
            rows = compile_output(output, connector)
        shape = state_shape(rows)
        checkpoint.check_plan(shape, inputs_of(rows))
        return Prepared(flow.name, output, rows, sink, checkpoint, output_mode(shape))

    def _sink(self, output: Output) -> Sink:
        return DyingSink(CollectingSink(self._rows / output.name, self._clock))

    def _apply(self, prepared: Prepared, rows: "DataFrame", number: int) -> None:
        point = self._dies_after
        if point is KillPoint.READ:
            raise Killed
        with dying(rows.sparkSession.sparkContext, point):
            if prepared.told is not None:
                into_branches(prepared.told, prepared.name)(rows, number)
            else:
                foreach_batch(prepared.sink, prepared.name)(rows, number)
        if point not in (None, KillPoint.COMMIT):
            raise Killed
