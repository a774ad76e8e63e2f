"""The system as a graph: databases, topics, flows, views and sinks, and what flows between them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.console.observing.captures import CapturesSample
from headrace.console.observing.flows import FlowRow, FlowsSample
from headrace.console.observing.sinks import SinksSample
from headrace.console.observing.topics import TopicsSample
from headrace.console.observing.views import ViewsSample
from headrace.console.wording import count, duration, link, rate

NO_SINKS: Final = SinksSample()

MOST_NODES: Final = 120
"""Of a graph that is drawn; of a larger one, what moves least is left out and counted."""


@dataclass(frozen=True, slots=True)
class Node:
    """One thing on the map."""

    id: str
    kind: str
    """database, topic, flow, view or sink."""

    name: str
    detail: str
    health: str
    href: str
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Edge:
    """Records that go from one to the other."""

    source: str
    target: str
    rate: float


@dataclass(frozen=True, slots=True)
class Graph:
    """What there is on the map, and in which column it stands."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    columns: tuple[tuple[str, ...], ...] = ()
    """Ids from left to right, and in each column from top to bottom."""

    others: int = 0
    """Topics that nothing here reads or writes, which are not on it."""


def graph_of(
    topics: TopicsSample,
    flows: FlowsSample,
    captures: CapturesSample,
    views: ViewsSample,
    sinks: SinksSample = NO_SINKS,
) -> Graph:
    """The graph of what was observed."""
    nodes: dict[str, Node] = {}
    edges: dict[tuple[str, str], Edge] = {}

    def topic(name: str) -> str:
        row = topics.rows.get(name)
        detail, health = "not there", "warn"
        if row is not None:
            detail = f"{count(row.records)} records"
            health = "bad" if row.leaderless else "ok" if row.rate else "idle"
        moves = row.rate if row else 0.0
        nodes[f"topic {name}"] = Node(
            f"topic {name}", "topic", name, detail, health, f"/topics/{name}", moves
        )
        return f"topic {name}"

    def edge(source: str, target: str, moves: float) -> None:
        edges[source, target] = Edge(source, target, moves)

    for capture in captures.rows.values():
        health = "bad" if not capture.healthy else "idle" if capture.condition == "paused" else "ok"
        detail = capture.condition
        if capture.condition == "following" and capture.behind_ms is not None:
            detail = f"{duration(capture.behind_ms)} behind"
        id_ = f"database {capture.name}"
        nodes[id_] = Node(id_, "database", capture.name, detail, health, "/captures", capture.rate)
        for table in capture.tables:
            if table.topic in topics.rows:
                edge(id_, topic(table.topic), topics.rows[table.topic].rate)
    for flow in flows.rows.values():
        id_ = f"flow {flow.title}"
        nodes[id_] = Node(
            id_, "flow", flow.title, _detail(flow), _health(flow), link("/flow", title=flow.title)
        )
        for name in flow.reads:
            row = topics.rows.get(name)
            edge(topic(name), id_, row.rate if row and flow.runs else 0.0)
        for name in flow.writes:
            row = topics.rows.get(name)
            edge(id_, topic(name), row.rate if row and flow.runs else 0.0)
        for output in flow.outputs:
            if output["sink"]:
                sink = f"sink {flow.title}.{output['output']}"
                nodes[sink] = Node(
                    sink, "sink", output["output"], output["sink"], _health(flow), nodes[id_].href
                )
                edge(id_, sink, float(output["rate"]) if flow.runs else 0.0)
    for view in views.rows.values():
        id_ = f"view {view.name}"
        nodes[id_] = Node(
            id_, "view", view.name, view.detail, view.health, link("/view", name=view.name)
        )
        if view.topic:
            row = topics.rows.get(view.topic)
            edge(topic(view.topic), id_, row.rate if row else 0.0)
    for one in sinks.rows.values():
        id_ = f"sink {one.name}"
        nodes[id_] = Node(id_, "sink", one.name, one.detail, one.health, "/views")
        edge(topic(one.topic), id_, one.rate)
    kept = _most_moving(nodes, edges.values())
    known = {name for name, row in topics.rows.items() if not row.internal}
    others = len(known - {node.name for node in kept.values() if node.kind == "topic"})
    lines = tuple(each for each in edges.values() if each.source in kept and each.target in kept)
    return Graph(kept, lines, _columns(kept, lines), others)


def _most_moving(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> dict[str, Node]:
    if len(nodes) <= MOST_NODES:
        return dict(nodes)
    moves = dict.fromkeys(nodes, 0.0)
    for each in edges:
        moves[each.source] += each.rate
        moves[each.target] += each.rate
    ranked = sorted(nodes, key=lambda each: (nodes[each].health != "bad", -moves[each], each))
    return {each: nodes[each] for each in ranked[:MOST_NODES]}


def _columns(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> tuple[tuple[str, ...], ...]:
    """Everything stands right of what it comes from; within a column near to what it comes from."""
    sources: dict[str, list[str]] = {each: [] for each in nodes}
    for edge in edges:
        sources[edge.target].append(edge.source)
    depth: dict[str, int] = {}

    def place(node: str, path: frozenset[str]) -> int:
        if node not in depth:
            # A flow may read what it writes; a circle counts from where one came in.
            before = [place(each, path | {node}) for each in sources[node] if each not in path]
            first = 0 if nodes[node].kind == "database" else 1
            depth[node] = max((each + 1 for each in before), default=first)
        return depth[node]

    for node in sorted(nodes):
        place(node, frozenset({node}))
    last = max(depth.values(), default=0)
    columns: list[list[str]] = [[] for _ in range(last + 1)]
    for node, column in depth.items():
        columns[column].append(node)
    height: dict[str, float] = {}
    for members in columns:
        members.sort(key=lambda each: (_mean(height, sources[each]), nodes[each].name))
        height.update({each: number for number, each in enumerate(members)})
    return tuple(tuple(each) for each in columns if each)


def _mean(height: Mapping[str, float], nodes: Iterable[str]) -> float:
    known = [height[each] for each in nodes if each in height]
    return sum(known) / len(known) if known else 0.0


def _detail(flow: FlowRow) -> str:
    if not flow.runs:
        return "not running" if flow.state == "known" else flow.state
    behind = f", lag {count(flow.lag)}" if flow.lag else ""
    return f"{rate(flow.rate)}{behind}"


def _health(flow: FlowRow) -> str:
    if not flow.healthy:
        return "warn" if flow.state == "waiting" else "bad"
    return "ok" if flow.runs else "idle"
