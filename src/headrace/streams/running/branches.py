"""Outputs that are made by one operator with state: one query, and every batch goes to all of them.

The query is of what the operator tells, in blobs (`headrace.streams.state.keyed`). A batch of that
is computed once and kept; then each output makes its rows of it and writes them. The batch is done
when all have it, and outputs that have it already write nothing if it comes again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.streams.compile import compile_operator
from headrace.streams.errors import InvalidFlow
from headrace.streams.outputs import Output
from headrace.streams.plan import WindowAggregate
from headrace.streams.running.state import state_shape
from headrace.streams.sinks.applying import Applied, apply, identity, partitions_of, written
from headrace.streams.sinks.contract import Batch, Sink
from headrace.streams.windowing import state_of
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
    sink: Sink
    rows: "Callable[[DataFrame], DataFrame]"


@dataclass(frozen=True, slots=True)
class Told:
    """An operator as a query, with the outputs that it has."""

    tagged: "DataFrame"
    shape: tuple[str, ...]
    """Of what Spark keeps for it, for the manifest."""

    operator: "StoredOperator"
    """What the manifest says of it."""

    branches: tuple[Branch, ...]
    left_out: "Callable[[DataFrame], int]"
    """How many events of a batch some window did not take, wherever else they went."""


def told(
    operator: WindowAggregate,
    outputs: Sequence[Output],
    connector: "Connector",
    sink_of: Callable[[Output], Sink],
    stored: "StoredOperator | None" = None,
) -> Told:
    """Compile an operator and what its outputs make of it.

    `stored` is what the checkpoint remembers of the operator, if it has run before.

    Raises InvalidFlow if an output keeps state behind the operator, which would begin anew with
    every batch.
    """
    keyed = compile_operator(operator, connector, stored)
    own = state_shape(keyed.tagged)

    def branch(output: Output) -> Branch:
        def rows(batch: "DataFrame") -> "DataFrame":
            return compile_output(output, connector, replace(keyed, tagged=batch))

        if len(shape := state_shape(rows(keyed.tagged))) > len(own):
            raise InvalidFlow(
                f"Output {output.name} keeps state ({shape[0]}) behind {operator.label[0]}; write "
                "the results to a topic, and do the rest in another flow that reads it."
            )
        return Branch(output, sink_of(output), rows)

    return Told(
        keyed.tagged,
        own,
        state_of(operator, keyed, stored),
        tuple(map(branch, outputs)),
        partial(_left_out, keyed),
    )


def into_branches(
    query: Told,
    name: str,
    tell: Callable[[Output, Applied], None] = lambda output, applied: None,
    tell_left_out: Callable[[int], None] = lambda events: None,
) -> "Callable[[DataFrame, int], None]":
    """What `foreachBatch` wants.

    `tell` hears of every output of every batch, and `tell_left_out` how many of its events some
    window did not take.
    """

    def apply_batch(tagged: "DataFrame", number: int) -> None:
        identified = identity(name, tagged)
        kept = tagged.persist()
        try:
            for each in query.branches:
                rows = each.rows(kept)
                batch = Batch(f"{identified}.{each.output.name}", number, partitions_of(rows))
                tell(each.output, apply(each.sink, batch, written(rows, each.sink)))
            tell_left_out(query.left_out(kept))
        finally:
            kept.unpersist()

    return apply_batch


def _left_out(keyed: "Keyed", batch: "DataFrame") -> int:
    return sum(keyed.collected("counts", batch).column("rows").to_pylist())
