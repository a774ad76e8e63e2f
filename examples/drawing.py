"""Lines, dots and words, as SVG: what the pictures in the book are drawn with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

WIDTH: Final = 720
INK, DIM, BLUE, RED, LIGHT = "#24292f", "#8c959f", "#0969da", "#cf222e", "#d0d7de"


def text(x: float, y: float, said: str, *, anchor: str = "middle", colour: str = INK) -> str:
    """Words at a place."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {place}>{said}</text>"


def dot(x: float, y: float, colour: str) -> str:
    """An event."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    """A window."""
    size = f'width="{width:.1f}" height="{height:.1f}" rx="3"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{colour}"/>'


def line(points: Sequence[tuple[float, float]], colour: str, *, dashed: bool = False) -> str:
    """A line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = ' stroke-dasharray="2 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}"{dashes}/>'


def picture(height: float, drawn: Iterable[str]) -> str:
    """All of it, as a file has it."""
    size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    style = 'font-family="sans-serif" font-size="12"'
    inside = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{inside}\n</svg>\n'
    )


def draw_all(pictures: Mapping[str, Callable[[], str]], directory: Path) -> None:
    """Draw pictures into the files of a directory that they are named after."""
    for name, draw in pictures.items():
        (directory / name).write_text(draw(), encoding="utf-8")
