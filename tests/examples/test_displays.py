"""What the demo shows, on a terminal, in a pipe and as a picture."""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from examples.shop.events import PARTITIONS, TOPICS
from examples.shop.lines import Lines, describe
from examples.shop.observer import GroupState, Observation, Partition
from examples.shop.picture import Picture
from examples.shop.scene import GroupScene, Rates, Scene
from examples.shop.screen import render

ENDS: Mapping[Partition, int] = {(topic, n): 10 for topic in TOPICS for n in range(PARTITIONS)}
ANALYTICS = GroupScene("analytics", TOPICS, ("analytics-1", "analytics-2"), "revenue 1.00 €")


@pytest.fixture
def scene() -> Scene:
    """Two members, of which one is away; one partition is 7 behind and belongs to nobody."""
    behind = dict(ENDS) | {("orders", 2): 3}
    owned = [place for place in ENDS if place != ("orders", 2)]
    group = GroupState("stable", behind, {"analytics-1": owned})
    observation = Observation(5.0, ENDS, {"analytics": group})
    rates = dict.fromkeys(TOPICS, 25.0)
    history = {topic: [0.0, 25.0] for topic in TOPICS}
    news = "analytics-2 has left"
    return Scene(
        "127.0.0.1:9092", 5.0, observation, rates, history, [ANALYTICS], news, 45_000_000, 2_000_000
    )


def text_of(scene: Scene) -> str:
    console = Console(file=StringIO(), width=120)
    console.print(render(scene))
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue()


@pytest.mark.parametrize(
    "words",
    [
        "broker 127.0.0.1:9092 · up 5 s · 120 events · 2.0 MB on disk · 45 MB of memory",
        "analytics · stable · lag 7",
        "● analytics-1  ○ analytics-2 is away",
        "○ 7",
        "revenue 1.00 €",
        "analytics-2 has left",
    ],
)
def test_the_screen_tells_how_things_stand(scene: Scene, words: str) -> None:
    assert words in text_of(scene)


def test_a_line_tells_rates_members_and_lag(scene: Scene) -> None:
    assert describe(scene) == (
        "120 events  page_views 25/s  searches 25/s  clicks 25/s  orders 25/s"
        " | analytics: 1 members, lag 7"
    )


def test_lines_tell_news_once(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    with Lines() as lines:
        lines.show(scene)
        lines.show(scene)
    assert capsys.readouterr().out.count("analytics-2 has left") == 1


def test_the_picture_is_of_the_last_moment_and_loads_nothing(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "demo.svg"
    with Picture(path) as picture:
        picture.show(scene)
    svg = path.read_text()
    assert svg.startswith("<svg")
    assert "analytics-1" in svg
    assert "url(" not in svg.replace("url(#", "")


def test_a_rate_is_taken_over_the_last_seconds() -> None:
    rates = Rates()
    for second in range(6):
        ends = {("orders", 0): second * 10 if second < 3 else 20 + (second - 2) * 40}
        rates.add(Observation(float(second), ends))
    assert rates.now()["orders"] == pytest.approx(40.0)
    assert rates.history()["orders"][:2] == [0.0, 10.0]


def test_a_commit_that_overtook_the_end_is_no_negative_lag() -> None:
    group = GroupState("stable", {("orders", 0): 12}, {})
    assert Observation(0.0, {("orders", 0): 10}, {"g": group}).lag("g", ("orders", 0)) == 0
