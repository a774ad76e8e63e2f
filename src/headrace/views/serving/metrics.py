"""What Prometheus is told of served views."""

from collections.abc import Callable

from headrace.prometheus import escaped, written
from headrace.views.serving.catalog import Catalog
from headrace.views.serving.view import ViewStatus

_METRICS: tuple[tuple[str, str, str, Callable[[ViewStatus], float]], ...] = (
    ("rows", "gauge", "Rows of the view.", lambda status: status.rows or 0),
    ("lag_records", "gauge", "Records that are not applied yet.", lambda status: status.lag),
    (
        "behind_seconds",
        "gauge",
        "Age of the last record applied, while there are later ones.",
        lambda status: status.behind_ms / 1000,
    ),
    ("subscribers", "gauge", "Feeds that are open.", lambda status: status.subscribers),
    ("changes_total", "counter", "Changes applied.", lambda status: status.sequence),
    (
        "rejected_total",
        "counter",
        "Records that said nothing about a row.",
        lambda status: status.rejected,
    ),
    ("building", "gauge", "Whether it is being built.", lambda status: int(status.building)),
)


async def exposition(catalog: Catalog) -> str:
    """Every view's figures, as Prometheus reads them."""
    statuses: list[ViewStatus] = [await each.status() for each in catalog.views]
    lines = []
    for name, kind, about, value in _METRICS:
        lines.append(f"# HELP headrace_view_{name} {about}")
        lines.append(f"# TYPE headrace_view_{name} {kind}")
        lines += [
            f'headrace_view_{name}{{view="{escaped(each.name)}"}} {written(value(each))}'
            for each in statuses
        ]
    return "\n".join(lines) + "\n"
