"""Flows drawn, as text and as a picture."""

import xml.etree.ElementTree as ElementTree

import pytest

from headrace.streams import Flow


@pytest.fixture
def shop() -> Flow:
    flow = Flow("shop")
    clicks = flow.stream("clicks", "user string, url string, price double", dead_letters="bad")
    large = clicks.where("price  >\n 100")
    flow.topic("large-clicks", large.select("user", cents="price * 100"), key="user")
    flow.topic("urls", large.pipe(str.upper))  # type: ignore[arg-type]
    flow.table("users", "id string", key="id")
    return flow


def test_a_flow_is_drawn_from_its_sources_to_its_outputs(shop: Flow):
    assert str(shop) == (
        "flow shop\n"
        "\n"
        "stream clicks  dead letters to bad\n"
        "├─ where  price > 100\n"
        "│  ├─ select  user, cents = price * 100\n"
        "│  │  └─▶ topic large-clicks  key user\n"
        "│  └─ pipe  upper\n"
        "│     └─▶ topic urls\n"
        "└─▶ topic bad  dead letters\n"
        "\n"
        "table users  key id"
    )


def test_an_empty_flow_says_how_to_begin():
    assert "flow.stream(" in str(Flow("empty"))
    assert "empty" in Flow("empty")._repr_html_()


def test_one_stream_can_be_drawn(shop: Flow):
    drawn = str(shop.stream("orders", "x int").where("x > 1"))
    assert drawn == "flow shop\n\nstream orders\n└─ where  x > 1"


def test_the_picture_has_a_box_for_each_step_and_no_loose_text(shop: Flow):
    root = ElementTree.fromstring(shop._repr_html_())
    space = "{http://www.w3.org/2000/svg}"
    texts = ["".join(each.itertext()) for each in root.iter(f"{space}text")]
    assert len(list(root.iter(f"{space}rect"))) == 8
    assert {"stream clicks", "price > 100", "topic large-clicks"} <= set(texts)


def test_boxes_of_the_picture_do_not_overlap(shop: Flow):
    root = ElementTree.fromstring(shop._repr_html_())
    corners = [
        (each.attrib["x"], each.attrib["y"])
        for each in root.iter("{http://www.w3.org/2000/svg}rect")
    ]
    assert len(set(corners)) == len(corners)
