"""The map: what there is, how it hangs together, what moves and what is broken."""

import html
from typing import Final

from nicegui import ui

from headrace.console.frame import Console, frame, live
from headrace.console.observing.graph import Edge, Graph, Node, graph_of
from headrace.console.widgets import chart, empty, facts, heading
from headrace.console.wording import count, rate, short

_WIDTH: Final = 212
_HEIGHT: Final = 46
_GAP_X: Final = 72
_GAP_Y: Final = 16
_TOP: Final = 26
_LETTERS: Final = 22
_NAMES: Final = {
    "database": "Databases",
    "topic": "Topics",
    "flow": "Flows",
    "view": "Views",
    "sink": "Sinks",
}


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/")
    def map_page() -> None:
        with frame(console, "Map", at="/"):
            _show(console)


def _show(console: Console) -> None:
    observatory = console.observatory
    heading("Map", "Where data comes from, what becomes of it, and how fast it moves.")

    def known() -> dict[str, str]:
        topics, flows = observatory.topics.value, observatory.flows.value
        visible = [each for each in topics.rows.values() if not each.internal]
        return {
            "Written": rate(sum(each.rate for each in visible)),
            "Topics": count(len(visible)),
            "Flows running": count(sum(each.runs for each in flows.rows.values())),
            "Captures": count(len(observatory.captures.value.rows)),
            "Alerts": count(len(console.alerts.firing)),
        }

    change = facts(known())
    nothing = empty(
        "account_tree",
        "Nothing flows here yet",
        "Capture a database or run a flow, and it appears here:",
        "headrace run flow.py",
    )
    with ui.column().classes("hr-card") as card:
        drawing = ui.html("", sanitize=False).classes("hr-map")
        others = ui.link("", "/topics").classes("hr-link")
    with ui.column().classes("hr-card"):
        ui.label("Records written per second, all topics").classes("hr-heading")
        plot = chart([], name="Records written per second")

    def refresh() -> None:
        change(known())
        plot(observatory.topics.value.history)
        graph = graph_of(
            observatory.topics.value,
            observatory.flows.value,
            observatory.captures.value,
            observatory.views.value,
            observatory.sinks.value,
        )
        seen = observatory.topics.seen.at_ms is not None
        nothing.visible = seen and not graph.nodes
        card.visible = bool(graph.nodes)
        others.visible = bool(graph.others)
        topics = "topic" if graph.others == 1 else "topics"
        others.text = f"and {count(graph.others)} {topics} that nothing here reads or writes"
        if graph.nodes and (drawn := draw(graph)) != drawing.content:
            drawing.content = drawn

    live(refresh)


def draw(graph: Graph) -> str:
    """The graph as SVG; every node is a link that the keyboard reaches."""
    places: dict[str, tuple[float, float]] = {}
    tallest = max((len(each) for each in graph.columns), default=1)
    height = tallest * (_HEIGHT + _GAP_Y) - _GAP_Y + _TOP + 4
    for number, column in enumerate(graph.columns):
        own = len(column) * (_HEIGHT + _GAP_Y) - _GAP_Y
        top = _TOP + (height - _TOP - own) / 2
        for place, node in enumerate(column):
            places[node] = (number * (_WIDTH + _GAP_X) + 2, top + place * (_HEIGHT + _GAP_Y))
    width = len(graph.columns) * (_WIDTH + _GAP_X) - _GAP_X + 4
    lanes = "".join(
        f'<text class="lane" x="{number * (_WIDTH + _GAP_X) + 2}" y="12">{_lane(graph, column)}'
        "</text>"
        for number, column in enumerate(graph.columns)
    )
    lines = "".join(_edge(each, places) for each in graph.edges)
    nodes = "".join(_node(graph.nodes[each], *places[each]) for each in places)
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" style="max-width:{width * 1.25:.0f}px" '
        f'role="group" aria-label="Map">{lanes}{lines}{nodes}</svg>'
    )


def _lane(graph: Graph, column: tuple[str, ...]) -> str:
    kinds = dict.fromkeys(graph.nodes[each].kind for each in column)
    return " · ".join(_NAMES[each] for each in kinds)


def _edge(edge: Edge, places: dict[str, tuple[float, float]]) -> str:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    x1, y1, y2 = x1 + _WIDTH, y1 + _HEIGHT / 2, y2 + _HEIGHT / 2
    bend = max((x2 - x1) / 2, 36)
    flowing = " flowing" if edge.rate else ""
    path = f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    label = (
        f'<text class="rate" x="{(x1 + x2) / 2:.0f}" y="{(y1 + y2) / 2 - 5:.0f}" '
        f'text-anchor="middle">{rate(edge.rate)}</text>'
        if edge.rate
        else ""
    )
    return f'<path class="edge{flowing}" d="{path}"/>{label}'


def _node(node: Node, x: float, y: float) -> str:
    name = html.escape(short(node.name, _LETTERS))
    said = html.escape(short(node.detail, _LETTERS + 4))
    title = html.escape(f"{node.kind} {node.name}: {node.detail}")
    return (
        f'<a href="{html.escape(node.href)}" class="node {node.health}" aria-label="{title}">'
        f"<title>{title}</title>"
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="9"/>'
        f'<circle class="dot {node.health}" cx="{x + 14:.0f}" cy="{y + 17:.0f}" r="4"/>'
        f'<text x="{x + 25:.0f}" y="{y + 21:.0f}">{name}</text>'
        f'<text class="small" x="{x + 25:.0f}" y="{y + 36:.0f}">{said}</text></a>'
    )
