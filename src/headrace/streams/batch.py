"""A flow over a bounded range: the same code, read once, as ordinary DataFrames."""

from typing import TYPE_CHECKING

from headrace.streams.aliases import FollowingAliases
from headrace.streams.compile import compile_node
from headrace.streams.connectors import BoundedKafka, Connector
from headrace.streams.errors import InvalidFlow
from headrace.streams.names import did_you_mean
from headrace.streams.outputs import TopicOutput
from headrace.streams.plan import DELETED, PROCESSED, Node
from headrace.streams.rows import Rows, Table
from headrace.streams.running.stage import aliases_for
from headrace.streams.stateful import WindowAggregate, operators_of
from headrace.streams.writing import as_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.streams.flow import Flow


class Batch:
    """The topics of a flow between two positions.

        november = flow.batch(start="2026-11-01", end="2026-12-01")
        november.df(large_orders).count()

    The range holds for every source of the flow, in the place of where its streams start. Windows
    close at the end of it, so that no event is late.
    """

    def __init__(self, flow: "Flow", start: str, end: str) -> None:
        self._flow = flow
        self._start = start
        self._end = end

    def df(self, rows: Rows) -> "DataFrame":
        """The rows that a stream has in the range, or that a table has at the end of it."""
        if rows.flow is not self._flow:
            raise InvalidFlow(
                f"These rows belong to flow {rows.flow.name}; ask {rows.flow.name}.batch(...)."
            )
        _require_bounded(rows.node)
        found = compile_node(rows.node, self._connector())
        if not isinstance(rows, Table):
            return found
        return found.where(f"not {DELETED}").drop(DELETED)

    def records(self, output: str) -> "DataFrame":
        """What an output would write to its topic: `key`, `value` and so on, written nowhere."""
        outputs = {each.name: each for each in self._flow.outputs}
        found = outputs.get(output)
        if not isinstance(found, TopicOutput):
            topics = [name for name, each in outputs.items() if isinstance(each, TopicOutput)]
            hint = did_you_mean(output, topics)
            raise InvalidFlow(f"Flow {self._flow.name} writes no topic as {output}; {hint}")
        _require_bounded(found.node)
        return as_records(compile_node(found.node, self._connector()), found)

    def _connector(self) -> Connector:
        flow = self._flow
        kafka = BoundedKafka(flow.spark, flow.settings.kafka, self._start, self._end)
        return FollowingAliases(kafka, aliases_for(flow))

    def __repr__(self) -> str:
        return f"<Batch of flow {self._flow.name!r} from {self._start} to {self._end}>"


def _require_bounded(node: Node) -> None:
    for operator in operators_of(node):
        if isinstance(operator, WindowAggregate) and operator.time == PROCESSED:
            raise InvalidFlow(
                f"{operator.label[0]} is cut by when events are read, and a batch reads all of "
                "them at once. Cut it by event time, or let the flow run."
            )
