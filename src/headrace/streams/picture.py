"""A flow drawn as a picture for notebooks: plain SVG, with the colours of the page it is on."""

from collections.abc import Iterator, Sequence
from html import escape

from headrace.streams.graph import followers_of
from headrace.streams.outputs import Output
from headrace.streams.plan import Node

_WIDTH, _HEIGHT = 190, 46
_GAP_ACROSS, _GAP_DOWN = 40, 18
_LONGEST = 28

_COLOURS = {"source": "#2f7fd0", "step": "#8a8f98", "output": "#2e9e5b"}


def picture(nodes: Sequence[Node], outputs: Sequence[Output]) -> str:
    """The graph as SVG: sources on the left, outputs on the right, an arrow for each step."""
    followers = followers_of(nodes, outputs)
    places = _places(followers)
    if not places:
        return "<em>an empty flow</em>"
    width = max(across for across, _ in places.values()) + _WIDTH + 2
    height = max(down for _, down in places.values()) + _HEIGHT + 2
    arrows = [
        _arrow(places[node], places[follower])
        for node, those in followers.items()
        for follower in those
    ]
    boxes = [part for node, place in places.items() for part in _box(node, place)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12" '
        f'fill="currentColor">{"".join((*arrows, *boxes))}</svg>'
    )


def _places(
    followers: dict[Node | Output, list[Node | Output]],
) -> dict[Node | Output, tuple[int, int]]:
    """Left upper corners: a column further right than any input, a free row in that column."""
    columns: dict[Node | Output, int] = {}
    rows: dict[Node | Output, int] = {}
    taken: dict[int, int] = {}
    for node in followers:
        inputs = (node.node,) if isinstance(node, Output) else node.inputs
        columns[node] = max((columns[each] + 1 for each in inputs), default=0)
        beside = min((rows[each] for each in inputs), default=0)
        rows[node] = max(taken.get(columns[node], 0), beside)
        taken[columns[node]] = rows[node] + 1
    return {
        node: (columns[node] * (_WIDTH + _GAP_ACROSS), rows[node] * (_HEIGHT + _GAP_DOWN))
        for node in followers
    }


def _box(node: Node | Output, place: tuple[int, int]) -> Iterator[str]:
    across, down = place
    title, about = node.label
    kind = "output" if isinstance(node, Output) else "step" if node.inputs else "source"
    yield (
        f'<rect x="{across}" y="{down}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
        f'fill="{_COLOURS[kind]}" fill-opacity="0.15" stroke="{_COLOURS[kind]}"/>'
    )
    yield _text(title, across + 10, down + (20 if about else 27), 'font-weight="bold"')
    if about:
        yield _text(about, across + 10, down + 36, 'opacity="0.75"')


def _text(text: str, across: int, down: int, style: str) -> str:
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    hint = f"<title>{escape(text)}</title>" if short != text else ""
    return f'<text x="{across}" y="{down}" {style}>{escape(short)}{hint}</text>'


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    left, right = start[0] + _WIDTH, end[0]
    from_down, to_down = start[1] + _HEIGHT // 2, end[1] + _HEIGHT // 2
    middle = (left + right) // 2
    return (
        f'<path d="M{left},{from_down} C{middle},{from_down} {middle},{to_down} {right},{to_down}" '
        'fill="none" stroke="currentColor" opacity="0.5"/>'
        f'<path d="M{right},{to_down} l-7,-4 v8 z" opacity="0.5"/>'
    )
