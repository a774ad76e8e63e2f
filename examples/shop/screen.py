"""The demo for a terminal: one screen, redrawn as things change."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from examples.shop.events import PARTITIONS, TOPICS
from examples.shop.observer import Partition
from examples.shop.scene import GroupScene, Scene

_BARS = " ▁▂▃▄▅▆▇█"
_MEMBER_STYLES = ("cyan", "magenta", "yellow", "green", "blue")
_HISTORY_SHOWN = 24


class Screen:
    """Takes over the terminal while the demo runs and gives it back afterwards."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back."""
        self._live.stop()

    def show(self, scene: Scene) -> None:
        """Redraw."""
        self._live.update(render(scene), refresh=True)


def render(scene: Scene) -> RenderableType:
    """The whole screen."""
    return Panel(
        Group(
            _broker(scene),
            Text(),
            _topics(scene),
            Text(),
            Columns([_group(scene, group) for group in scene.groups], padding=(0, 3)),
            Text(),
            Text(
                scene.news or "Each group sees every event of its topics; its members share them.",
                "bold",
            ),
            Text("Ctrl-C stops it", "dim"),
        ),
        title="[bold]Headrace[/] · a shop, live",
        border_style="blue",
        padding=(1, 2),
        expand=False,
    )


def _broker(scene: Scene) -> Text:
    facts = [f"broker {scene.bootstrap}", f"up {scene.elapsed:.0f} s", f"{scene.events:,} events"]
    if scene.stored_bytes is not None:
        facts.append(f"{scene.stored_bytes / 1e6:,.1f} MB on disk")
    if scene.memory_bytes is not None:
        facts.append(f"{scene.memory_bytes / 1e6:,.0f} MB of memory")
    return Text(" · ".join(facts))


def _topics(scene: Scene) -> Table:
    table = Table("topic", box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("events", justify="right", min_width=9)
    table.add_column("per second", justify="right")
    table.add_column("", min_width=_HISTORY_SHOWN, style="blue")
    for topic in TOPICS:
        table.add_row(
            topic,
            f"{scene.observation.stored(topic):,}",
            f"{scene.rates[topic]:,.0f}",
            sparkline(scene.history[topic][-_HISTORY_SHOWN:]),
        )
    table.add_section()
    table.add_row("all", f"{scene.events:,}", f"{sum(scene.rates.values()):,.0f}", style="bold")
    return table


def _group(scene: Scene, group: GroupScene) -> RenderableType:
    """Who reads which partition, and how far behind; a row per topic, a column per partition."""
    state = scene.observation.groups[group.name]
    owners = {place: member for member, places in state.assignment.items() for place in places}
    table = Table("lag", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number in range(PARTITIONS):
        table.add_column(f"partition {number}", min_width=11)
    for topic in group.topics:
        places: list[Partition] = [(topic, number) for number in range(PARTITIONS)]
        table.add_row(topic, *(_cell(scene, group, place, owners.get(place)) for place in places))
    members = Text("  ").join(
        _member(group, name, name in state.assignment) for name in group.members
    )
    title = Text.assemble((group.name, "bold"), f" · {state.state} · lag {scene.lag(group):,}")
    return Group(title, table, members, Text(group.finding, "italic"))


def _cell(scene: Scene, group: GroupScene, place: Partition, owner: str | None) -> Text:
    lag = f"{scene.observation.lag(group.name, place):,}"
    if owner is None:
        return Text(f"○ {lag}", "dim")
    return Text(f"● {lag}", _style(group, owner))


def _member(group: GroupScene, name: str, present: bool) -> Text:
    return Text(f"● {name}", _style(group, name)) if present else Text(f"○ {name} is away", "dim")


def _style(group: GroupScene, member: str) -> str:
    return _MEMBER_STYLES[group.members.index(member) % len(_MEMBER_STYLES)]


def sparkline(values: Sequence[float]) -> str:
    """A row of bars, the highest value filling its line.

    >>> sparkline([0, 1, 2, 4])
    ' ▂▄█'
    """
    highest = max(values, default=0) or 1
    return "".join(_BARS[round(value / highest * (len(_BARS) - 1))] for value in values)
