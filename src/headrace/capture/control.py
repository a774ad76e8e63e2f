"""What is wanted of captures that run elsewhere, and what is known about them."""

import uuid
from dataclasses import replace

from headrace.capture.databases import source_of
from headrace.capture.delivery import Delivery, Topics
from headrace.capture.errors import CaptureError
from headrace.capture.state import CaptureState, SnapshotRequest, Wishes
from headrace.capture.store import Stored, forget, read_store, read_stores, write_wishes
from headrace.kafka import Cluster
from headrace.settings import CaptureSettings


class UnknownCapture(CaptureError):
    """No capture of that name has run on this cluster."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"No capture {name} has run on this cluster. See `headrace capture status`."
        )


def states(cluster: Cluster) -> list[tuple[CaptureState, Wishes]]:
    """All captures that have run on a cluster, and what is wanted of them."""
    found = [(each.state, each.wishes) for each in read_stores(cluster)]
    return [(state, wishes) for state, wishes in found if state is not None]


def pause(cluster: Cluster, name: str, *, paused: bool) -> None:
    """Let a capture rest, or go on; it does so now if it runs, else when it does."""
    stored, _ = _known(cluster, name)
    write_wishes(cluster, name, replace(stored.wishes, paused=paused))


def request_snapshot(
    cluster: Cluster,
    name: str,
    table: str,
    low: tuple[str, ...] | None = None,
    high: tuple[str, ...] | None = None,
) -> SnapshotRequest:
    """Have a table read again, or those of its rows with `low` < key <= `high`."""
    stored, state = _known(cluster, name)
    tables = sorted({str(task.table) for task in state.tasks.values()})
    wanted = [each for each in tables if table in (each, each.partition(".")[2])]
    if not wanted:
        raise CaptureError(
            f"The capture {name} has no table {table}; it has {', '.join(tables) or 'none yet'}."
        )
    wishes = stored.wishes
    finished = {task.id for task in state.tasks.values() if task.done}
    asked = SnapshotRequest(f"{wanted[0]} {uuid.uuid4().hex[:8]}", wanted[0], low, high)
    kept = [each for each in wishes.snapshots if each.id not in finished]
    write_wishes(cluster, name, replace(wishes, snapshots=(*kept, asked)))
    return asked


def drop(cluster: Cluster, settings: CaptureSettings) -> list[str]:
    """Remove a capture: what it made in the database, and what is kept about it; not its topics.

    A process that still runs it is fenced first, and ends.
    """
    source = source_of(settings)
    try:
        Delivery(cluster, settings.called, Topics(cluster)).close()
        dropped = list(source.drop())
    finally:
        source.close()
    if forget(cluster, settings.called):
        dropped.append(f"what was kept about {settings.called}")
    return dropped


def _known(cluster: Cluster, name: str) -> tuple[Stored, CaptureState]:
    stored = read_store(cluster, name)
    if (state := stored.state) is None:
        raise UnknownCapture(name)
    return stored, state
