"""What is on the map, and where."""

from typing import Any

from headrace.console.observing.captures import CaptureRow, CapturesSample, TableSeen
from headrace.console.observing.flows import FlowRow, FlowsSample
from headrace.console.observing.graph import MOST_NODES, graph_of
from headrace.console.observing.topics import TopicRow, TopicsSample
from headrace.console.observing.views import ViewRow, ViewsSample
from headrace.console.pages.map_page import draw


def topic(name: str, rate: float = 0.0, *, internal: bool = False) -> TopicRow:
    return TopicRow(name, 1, 0, 10, 100, rate, internal)


def topics(*rows: TopicRow) -> TopicsSample:
    return TopicsSample({each.name: each for each in rows})


def flow(title: str, reads: list[str], writes: str | None, state: str = "running") -> FlowRow:
    output: dict[str, Any] = {
        "output": writes or "rows",
        "reads": reads,
        "writes": writes,
        "sink": None if writes else "DuckDB",
        "dead_letters": [],
        "lag": 0,
        "rate": 3.0,
    }
    return FlowRow(title, title, "1", True, state, 0, "", 0, (output,))


def flows(*rows: FlowRow) -> FlowsSample:
    return FlowsSample({each.title: each for each in rows})


SHOP = CapturesSample(
    {
        "shop": CaptureRow(
            "shop", "", "following", False, 0, 5, 0, 0, "", 0, 0, 0, "",
            (TableSeen("public.orders", "shop.public.orders", 1, 1, True, 1),),
        )
    }
)  # fmt: skip


def test_everything_stands_right_of_what_it_comes_from() -> None:
    view = ViewRow("big", "large", "", (), False, 3, "", 0, 0, 1.0, 0, 0, "")
    graph = graph_of(
        topics(topic("shop.public.orders", 2.0), topic("large", 1.0), topic("alone")),
        flows(flow("orders", ["shop.public.orders"], "large")),
        SHOP,
        ViewsSample({"big": view}),
    )
    assert graph.columns == (
        ("database shop",),
        ("topic shop.public.orders",),
        ("flow orders",),
        ("topic large",),
        ("view big",),
    )
    assert graph.others == 1
    rates = {(each.source, each.target): each.rate for each in graph.edges}
    assert rates["topic shop.public.orders", "flow orders"] == 2.0
    assert rates["flow orders", "topic large"] == 1.0


def test_a_flow_that_does_not_run_moves_nothing_and_one_that_fails_is_red() -> None:
    rows = topics(topic("a", 5.0), topic("b", 5.0))
    stopped = graph_of(
        rows, flows(flow("f", ["a"], "b", "stopped")), CapturesSample(), ViewsSample()
    )
    assert {each.rate for each in stopped.edges} == {0.0}
    for state, health in (("given up", "bad"), ("silent", "bad"), ("waiting", "warn")):
        graph = graph_of(rows, flows(flow("f", ["a"], "b", state)), CapturesSample(), ViewsSample())
        assert graph.nodes["flow f"].health == health


def test_a_circle_ends() -> None:
    graph = graph_of(
        topics(topic("a"), topic("b")),
        flows(flow("one", ["a"], "b"), flow("two", ["b"], "a")),
        CapturesSample(),
        ViewsSample(),
    )
    assert len([each for column in graph.columns for each in column]) == 4


def test_a_large_system_is_cut_to_what_moves_and_what_is_broken() -> None:
    many = [topic(f"t{number}", 0.0) for number in range(300)]
    still = [flow(f"f{number}", [f"t{number}"], f"t{number + 150}") for number in range(150)]
    broken = flow("broken", ["t0"], "t1", "given up")
    graph = graph_of(topics(*many), flows(*still, broken), CapturesSample(), ViewsSample())
    assert len(graph.nodes) == MOST_NODES
    assert "flow broken" in graph.nodes


def test_names_are_drawn_as_text_and_not_as_markup() -> None:
    graph = graph_of(
        topics(topic("a")), flows(flow("<script>", ["a"], None)), CapturesSample(), ViewsSample()
    )
    drawn = draw(graph)
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn
    assert "DuckDB" in drawn
