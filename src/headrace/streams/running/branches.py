"""Outputs that are made by one operator with state: one query, and every batch goes to all of them.

The query is of what the operator tells, in blobs (`headrace.streams.state.keyed`). A batch of that
is computed once and kept; then each output makes its rows of it and writes them. The batch is done
when all have it, and outputs that have it already write nothing if it comes again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.streams.compile import compile_operators
from headrace.streams.errors import InvalidFlow
from headrace.streams.operators import states_of
from headrace.streams.outputs import Output
from headrace.streams.running.state import state_shape
from headrace.streams.sinks.applying import Applied, apply, identity, partitions_of, written
from headrace.streams.sinks.contract import AnySink, Batch
from headrace.streams.stateful import Stateful
from headrace.streams.time.standing import Standing, standing_of
from headrace.streams.writing import compile_output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.streams.connectors import Connector
    from headrace.streams.state.keyed import Keyed
    from headrace.streams.state.remembering import StoredOperator


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the outputs: what it makes of a batch of the operator, and where that goes."""

    output: Output
    sink: AnySink
    rows: "Callable[[DataFrame], DataFrame]"


@dataclass(frozen=True, slots=True)
class Heard:
    """What windows tell of a batch besides their results."""

    left_out: int = 0
    """How many events some window did not take, wherever else they went."""

    time: Standing | None = None
    """How far event time has come."""


@dataclass(frozen=True, slots=True)
class Told:
    """An operator as a query, with the outputs that it has."""

    tagged: "DataFrame"
    shape: tuple[str, ...]
    """Of what Spark keeps for it, for the manifest."""

    operators: "tuple[StoredOperator, ...]"
    """What the manifest says of it, behind those that it is behind."""

    branches: tuple[Branch, ...]
    hear: "Callable[[DataFrame], Heard]"
    """What the operator tells of a batch besides its outputs."""


def told(
    operator: Stateful,
    outputs: Sequence[Output],
    connector: "Connector",
    sink_of: Callable[[Output], AnySink],
    stored: "Sequence[StoredOperator]" = (),
) -> Told:
    """Compile an operator and what its outputs make of it.

    `stored` is what the checkpoint remembers of it and of those before it, if they have run.

    Raises InvalidFlow if an output keeps state behind the operator, which would begin anew with
    every batch.
    """
    keyed = compile_operators(operator, connector, stored)
    last = keyed[-1]
    own = state_shape(last.tagged)

    def branch(output: Output) -> Branch:
        def rows(batch: "DataFrame") -> "DataFrame":
            return compile_output(output, connector, replace(last, tagged=batch))

        if len(shape := state_shape(rows(last.tagged))) > len(own):
            raise InvalidFlow(
                f"Output {output.name} keeps state ({shape[0]}) behind {operator.label[0]}; write "
                "the results to a topic, and do the rest in another flow that reads it."
            )
        return Branch(output, sink_of(output), rows)

    return Told(
        last.tagged,
        own,
        states_of(operator, keyed, stored),
        tuple(map(branch, outputs)),
        partial(_heard, last),
    )


def into_branches(
    query: Told,
    name: str,
    tell: Callable[[Output, Applied], None] = lambda output, applied: None,
    tell_heard: Callable[[Heard], None] = lambda heard: None,
) -> "Callable[[DataFrame, int], None]":
    """What `foreachBatch` wants.

    `tell` hears of every output of every batch, and `tell_heard` what the operator told besides.
    """

    def apply_batch(tagged: "DataFrame", number: int) -> None:
        identified = identity(name, tagged)
        kept = tagged.persist()
        try:
            for each in query.branches:
                rows = each.rows(kept)
                batch = Batch(f"{identified}.{each.output.name}", number, partitions_of(rows))
                tell(each.output, apply(each.sink, batch, written(rows, each.sink)))
            tell_heard(query.hear(kept))
        finally:
            kept.unpersist()

    return apply_batch


def _heard(keyed: "Keyed", batch: "DataFrame") -> Heard:
    from headrace.streams.state.processor import STATISTICS

    told = keyed.collected(("counts", STATISTICS), batch)
    memory = next((each for each in told[STATISTICS].column("memory").to_pylist() if each), "")
    return Heard(sum(told["counts"].column("rows").to_pylist()), standing_of(memory))
