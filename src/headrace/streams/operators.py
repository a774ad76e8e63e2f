"""Which operator of `headrace.streams.state` a step with state becomes, and what is made of it."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from headrace.streams.stateful import Stateful, WindowAggregate, operators_of
from headrace.streams.stateful_joins import Lookup, StreamJoin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.streams.state.keyed import Keyed
    from headrace.streams.state.remembering import StoredOperator
    from headrace.streams.timing import EventTime


def keyed_of(
    node: Stateful,
    rows: "Sequence[DataFrame]",
    times: "Sequence[EventTime | None]",
    number: int,
    stored: "StoredOperator | None" = None,
) -> "Keyed":
    """The operator on its inputs, whose times are known where it needs them.

    `number` is how many operators are in front of it, and `stored` what the checkpoint remembers of
    it, if it has run before.
    """
    from headrace.streams import joining, tabling, windowing

    def name(kind: str) -> str:
        """What the state is kept under; several operators of a query have different names."""
        return f"{kind}-{number + 1}" if number else kind

    match node:
        case WindowAggregate():
            (events,), (time,) = rows, times
            assert time is not None
            return windowing.keyed_windows(node, events, time, name("window"), stored)
        case StreamJoin():
            return joining.keyed_join(node, rows, times, name("join"), stored)
        case Lookup():
            return joining.keyed_lookup(node, rows, times, name("lookup"), stored)
        case _:
            return tabling.keyed_table(node, rows, name, stored)


def results_of(node: Stateful, keyed: "Keyed", *, timed: bool) -> "DataFrame":
    """The rows of a stream or the changes of a table that an operator tells.

    With `timed`, for those behind it, with their own time and control rows between them.
    """
    from headrace.streams import joining, tabling, windowing

    match node:
        case WindowAggregate():
            return windowing.results(node, keyed, timed=timed)
        case StreamJoin() | Lookup():
            return joining.results(node, keyed, timed=timed)
        case _:
            return tabling.results(node, keyed)


def states_of(
    node: Stateful, keyed: "Sequence[Keyed]", stored: "Sequence[StoredOperator]" = ()
) -> "tuple[StoredOperator, ...]":
    """What the checkpoint of an operator has to remember, if it remembered `stored` before.

    Of several behind each other, that of each.
    """
    return tuple(
        _state_of(each, made, before)
        for each, made, before in zip_longest(operators_of(node), keyed, stored[: len(keyed)])
    )


def _state_of(node: Stateful, keyed: "Keyed", stored: "StoredOperator | None") -> "StoredOperator":
    from headrace.streams import windowing
    from headrace.streams.state.evolution import shape_of
    from headrace.streams.state.remembering import StoredOperator

    match node:
        case WindowAggregate():
            return windowing.state_of(node, keyed, stored)
        case StreamJoin() | Lookup():
            from headrace.streams.joining import meaning_and_bounds

            meaning, bounds = meaning_and_bounds(node)
        case _:
            meaning, bounds = " ".join(each for each in node.label if each), {}
    return StoredOperator(meaning, keyed.buckets, shape_of(keyed.description), bounds=bounds)
