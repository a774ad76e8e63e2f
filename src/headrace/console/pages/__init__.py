"""The pages of the console, one file each; each registers itself and only shows."""

from headrace.console.frame import Console
from headrace.console.pages import (
    alerts,
    captures,
    flow,
    flows,
    group,
    groups,
    map_page,
    processes,
    topic,
    topics,
    trace,
    view,
    views,
)


def register(console: Console) -> None:
    """Make all pages known."""
    for page in (
        map_page,
        topics,
        topic,
        groups,
        group,
        flows,
        flow,
        captures,
        views,
        view,
        trace,
        alerts,
        processes,
    ):
        page.register(console)
