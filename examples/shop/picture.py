"""The demo's screen as a picture, for the README: `python -m examples.shop --picture FILE`."""

import io
import re
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from examples.shop.scene import Scene
from examples.shop.screen import render

_COLUMNS = 118
_REMOTE_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Picture:
    """Draws nothing while the demo runs, and its last moment when it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: Scene | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the file."""
        if self._last is not None:
            self._path.write_text(draw(self._last))

    def show(self, scene: Scene) -> None:
        """Remember this moment."""
        self._last = scene


def draw(scene: Scene) -> str:
    """A scene as SVG that loads nothing from elsewhere."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(render(scene))
    return _REMOTE_FONTS.sub("", console.export_svg(title="make demo"))
