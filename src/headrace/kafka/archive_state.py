"""Asking a Headrace broker about its archive."""

from dataclasses import dataclass

from headrace.kafka.cluster import Cluster
from headrace.kafka.private import ask


@dataclass(frozen=True, slots=True)
class ArchiveState:
    """What a broker says about its archive."""

    location: str | None
    """Where it is, as the broker's machine calls it; None if the broker has none."""

    failure: str | None
    """Why nothing can be archived at the moment; None if it can."""


def archive_state(cluster: Cluster) -> ArchiveState:
    """What the broker that runs there says about its archive; raises what `ask` raises."""
    answer = ask(cluster, "archive.state", {}, seconds=cluster.timeout)
    return ArchiveState(answer["location"], answer["failure"])
