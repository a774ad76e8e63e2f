"""Where a flow's rows go: each output has a name and a sink.

Each is a query with a checkpoint of its own, but for those that are made by the same operator with
state: they are one query, so that the state is kept once and they commit together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from headrace.streams.plan import Expression, Node, written
from headrace.streams.stateful import LateRows, operator_of

if TYPE_CHECKING:
    from headrace.streams.sinks.contract import Sink
    from headrace.views.stores import Store
    from headrace.views.stores.delta import DeltaStore


@dataclass(frozen=True, slots=True, eq=False)
class TopicOutput:
    """Rows as the records of a topic."""

    name: str
    node: Node
    topic: str
    key: tuple[Expression, ...] = ()
    value: Expression | None = None
    headers: Mapping[str, Expression] = field(default_factory=dict)
    timestamp: Expression | None = None
    topic_of_row: Expression | None = None
    partitions: int | None = None
    compacted: bool = False
    """Whether the topic, if it is created, keeps the last record of each key."""

    delivery: str = "exactly_once"
    trigger: str | None = None
    """`realtime` for Spark's real-time mode, which delivers at least once; None for batches."""

    view: str | None = None
    """The view that is kept of the topic, if one is; see `headrace.views`."""

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        said = [f"key {', '.join(map(written, self.key))}"] if self.key else []
        said += [f"time {written(self.timestamp)}"] if self.timestamp is not None else []
        said += ["compacted"] if self.compacted else []
        said += ["at least once"] if self.delivery == "at_least_once" else []
        said += ["in real time, AT LEAST ONCE"] if self.trigger is not None else []
        if self.view is not None:
            return f"view {self.view}", ", ".join([f"topic {self.topic}", *said])
        return f"topic {self.topic}", ", ".join(said)


@dataclass(frozen=True, slots=True, eq=False)
class SinkOutput:
    """Rows as they are, to any sink that keeps the contract."""

    name: str
    node: Node
    sink: "Sink"

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return type(self.sink).__name__, self.name


@dataclass(frozen=True, slots=True, eq=False)
class StoreOutput:
    """Rows in a table of a store, which follows them."""

    name: str
    node: Node
    store: "Store"
    table: str
    key: tuple[str, ...] = ()
    dead_letters: str | None = None
    """The topic for rows that the store refuses, if there is one."""

    @property
    def delta(self) -> "DeltaStore | None":
        """The store if it is one of Delta tables, which Spark itself writes."""
        from headrace.views.stores.delta import DeltaStore

        return self.store if isinstance(self.store, DeltaStore) else None

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        said = [f"by {', '.join(self.key)}"] if self.key else ["added"]
        said += [f"refused rows to {self.dead_letters}"] if self.dead_letters else []
        return f"{type(self.store).__name__.removesuffix('Store')} {self.table}", ", ".join(said)


@dataclass(frozen=True, slots=True, eq=False)
class DeadLetterOutput:
    """The records of a stream that did not parse, with the reason and where they were."""

    name: str
    node: Node
    topic: str

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return f"topic {self.topic}", "dead letters"


Output: TypeAlias = TopicOutput | SinkOutput | StoreOutput | DeadLetterOutput
"""One query of a flow."""


def queries_of(outputs: Iterable[Output]) -> list[tuple[Output, ...]]:
    """The outputs of each query; the first gives the query its name and its checkpoint.

    That is the first one of results, if there is one, and not of what came too late for them: so
    late rows can be written or no longer be written without the results beginning anew.
    """
    found: dict[object, list[Output]] = {}
    for output in outputs:
        found.setdefault(operator_of(output.node) or output, []).append(output)
    return [tuple(sorted(each, key=lambda one: _is_late(one.node))) for each in found.values()]


def query_names(outputs: Iterable[Output]) -> dict[Output, str]:
    """The name of each output's query."""
    return {each: query[0].name for query in queries_of(outputs) for each in query}


def _is_late(node: Node) -> bool:
    return isinstance(node, LateRows) or any(map(_is_late, node.inputs))
