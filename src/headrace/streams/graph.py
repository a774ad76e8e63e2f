"""A flow drawn as text: its sources, what is made of them, and where that goes."""

from collections.abc import Iterable, Sequence

from headrace.streams.outputs import Output
from headrace.streams.plan import Node


def draw(name: str, nodes: Sequence[Node], outputs: Sequence[Output]) -> str:
    """The graph of a flow as a tree per source; a step that several lead to is drawn once.

    `nodes` are the ends to be drawn besides those that outputs have.
    """
    followers = followers_of(nodes, outputs)
    lines = [f"flow {name}"]
    drawn: set[Node | Output] = set()
    for source in (each for each in followers if not isinstance(each, Output) and not each.inputs):
        lines.append("")
        lines += _tree(source, "", "", followers, drawn)
    if len(lines) == 1:
        lines.append("  nothing yet: begin with flow.stream(...)")
    return "\n".join(lines)


def followers_of(
    nodes: Iterable[Node], outputs: Iterable[Output]
) -> dict[Node | Output, list[Node | Output]]:
    """What is made directly of each node, sources first, in the order they were described."""
    outputs = list(outputs)
    found: dict[Node | Output, list[Node | Output]] = {}

    def visit(node: Node) -> None:
        if node not in found:
            for each in node.inputs:
                visit(each)
            found[node] = []
            for each in node.inputs:
                found[each].append(node)

    for node in (*nodes, *(output.node for output in outputs)):
        visit(node)
    for output in outputs:
        found[output] = []
        found[output.node].append(output)
    return found


def _tree(
    node: Node | Output,
    first: str,
    rest: str,
    followers: dict[Node | Output, list[Node | Output]],
    drawn: set[Node | Output],
) -> list[str]:
    title, about = node.label
    again = "  (see above)" if node in drawn else ""
    lines = [f"{first}{title}{f'  {about}' if about else ''}{again}"]
    if node in drawn:
        return lines
    drawn.add(node)
    children = followers[node]
    for number, child in enumerate(children):
        last = number == len(children) - 1
        arrow = "▶ " if isinstance(child, Output) else " "
        lines += _tree(
            child,
            f"{rest}{'└─' if last else '├─'}{arrow}",
            f"{rest}{'   ' if last else '│  '}",
            followers,
            drawn,
        )
    return lines
