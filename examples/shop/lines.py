"""The demo for a pipe or a log file: a line now and then."""

from types import TracebackType
from typing import Self

from examples.shop.scene import Scene

_EVERY_SECONDS = 2.0


class Lines:
    """Prints a line every two seconds, and the news as it happens."""

    def __init__(self) -> None:
        self._due = 0.0
        self._news = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to put back."""

    def show(self, scene: Scene) -> None:
        """Print what is new."""
        if scene.news != self._news:
            self._news = scene.news
            print(f"{scene.elapsed:6.1f} s  {scene.news}", flush=True)
        if scene.elapsed >= self._due:
            self._due = scene.elapsed + _EVERY_SECONDS
            print(f"{scene.elapsed:6.1f} s  {describe(scene)}", flush=True)


def describe(scene: Scene) -> str:
    """The scene in one line."""
    rates = "  ".join(f"{topic} {rate:,.0f}/s" for topic, rate in scene.rates.items())
    groups = "".join(
        f" | {group.name}: {len(scene.observation.groups[group.name].assignment)} members,"
        f" lag {scene.lag(group):,}"
        for group in scene.groups
    )
    return f"{scene.events:,} events  {rates}{groups}"
