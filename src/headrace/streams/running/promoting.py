"""Switching to another version of a flow, and taking leave of one."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.kafka import (
    Cluster,
    CommittedOffsets,
    GroupInUse,
    Partition,
    UnknownGroup,
    UnknownTopic,
    delete_group,
    delete_topic,
    list_groups,
    list_topics,
)
from headrace.kafka.connection import Connection
from headrace.streams.names import did_you_mean
from headrace.streams.running.errors import VersionRefused
from headrace.streams.running.holding import held, is_running
from headrace.streams.running.places import Place
from headrace.streams.running.registry import Registry, RegistryFile, StoredOutput
from headrace.streams.running.standing import ends_of, lag_of
from headrace.streams.sinks.topic import SINK_GROUPS
from headrace.streams.versions import FIRST, Version
from headrace.views.migrating import drop_flow, promote_flow

PATIENCE_SECONDS = 15.0
"""How long a running version may take to read what is there when it is to be promoted."""

_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Promotion:
    """What a switch has changed."""

    before: Version
    after: Version
    topics: dict[str, tuple[str, str]]
    """The flow's names of topics: what each stood for, and what it stands for now."""

    flows: tuple[str, ...]
    """Other flows that read one of them, and go on only if they are rebuilt, too."""

    groups: tuple[str, ...]
    """Consumer groups on the topics that they stood for; their owners decide where they go."""


def promote(
    root: Place,
    version: Version,
    connection: Connection,
    cluster: Cluster,
    *,
    force: bool = False,
    patience: float = PATIENCE_SECONDS,
) -> Promotion:
    """Make a version the current one; VersionRefused if there is none, or if it is behind.

    It must have read everything that is there at this moment. If it is running it is waited for a
    little, so it can be promoted while records keep coming.
    """
    registry = RegistryFile(root).read()
    require_known(registry, version)
    before = registry.current(version.flow)
    if version == before:
        raise VersionRefused(f"{version.name} is the current version of {version.flow} already.")
    _require_own_topics(registry, version)
    if not force:
        _require_caught_up(registry, root, version, connection, patience)
    switched = _switched(registry, before, version)
    left = {old for old, _ in switched.values()}
    groups = _groups_on(cluster, left, registry)
    RegistryFile(root).change(lambda stored: _promoted(stored, version))
    promote_flow(cluster, version.title)
    return Promotion(before, version, switched, _readers(registry, version, set(switched)), groups)


def drop(root: Place, version: Version, cluster: Cluster, *, topics: bool = False) -> list[str]:
    """Forget a version that is not current, and with `topics` delete what it wrote.

    Gives the topics that were deleted. VersionRefused if it is current or there is none,
    FlowAlreadyRunning if it runs.
    """
    file = RegistryFile(root)
    registry = file.read()
    doomed = droppable_topics(registry, version)
    place = root.child(version.title)
    outputs = registry.flows[version.flow].versions[version.name]
    with held(place, version.title, cluster.settings):
        # First what a later run would go on from; until the last step it can be begun again.
        place.remove()
        for group in _groups_of(cluster, outputs, version):
            _delete(cluster, group)
        deleted = [each for each in doomed if topics and _deleted(cluster, each)]
        drop_flow(cluster, version.title)
        file.change(lambda stored: stored.without(version))
    return deleted


def droppable_topics(registry: Registry, version: Version) -> list[str]:
    """The topics that only this version writes; VersionRefused if it must not be dropped."""
    require_known(registry, version)
    stored = registry.flows[version.flow]
    if version.name == stored.current:
        others = [name for name in stored.versions if name != version.name]
        raise VersionRefused(
            f"{version.name} is the current version of {version.flow}: promote another one first; "
            f"{did_you_mean('', others)}"
        )
    mine = {each.writes for each in stored.versions[version.name].values() if each.writes}
    others_write = {
        each.writes
        for flow, one in registry.flows.items()
        for name, outputs in one.versions.items()
        if (flow, name) != (version.flow, version.name)
        for each in outputs.values()
    }
    return sorted(mine - others_write)


def require_known(registry: Registry, version: Version) -> None:
    """VersionRefused with a suggestion if no such version has ever run."""
    if version.flow not in registry.flows:
        hint = did_you_mean(version.flow, sorted(registry.flows))
        raise VersionRefused(f"No flow {version.flow} has run here; {hint}")
    if not registry.knows(version):
        hint = did_you_mean(version.name, sorted(registry.flows[version.flow].versions))
        raise VersionRefused(
            f"Flow {version.flow} has no version {version.name}; {hint} `headrace run FILE "
            f"--rebuild as {version.name}` makes one."
        )


def _promoted(registry: Registry, version: Version) -> Registry:
    require_known(registry, version)
    return registry.promoted(version)


def _require_own_topics(registry: Registry, version: Version) -> None:
    """Refuse if another flow writes the topic, too: one name cannot stand for both."""
    names = {each.topic for each in registry.flows[version.flow].versions[version.name].values()}
    for flow, stored in sorted(registry.flows.items()):
        shared = {each.topic for each in stored.versions.get(stored.current, {}).values()} & names
        if flow != version.flow and (shared := shared - {None}):
            raise VersionRefused(
                f"Flow {flow} writes the topic {min(map(str, shared))} as well, and whoever reads "
                f"it would no longer see both. Let one of the flows write another topic."
            )


def _require_caught_up(
    registry: Registry, root: Place, version: Version, connection: Connection, patience: float
) -> None:
    outputs = registry.flows[version.flow].versions[version.name]
    place = root.child(version.title)
    ends = ends_of(connection, outputs.values())

    def behind() -> dict[str, int]:
        lags = {name: lag_of(place, name, each, ends, connection) for name, each in outputs.items()}
        return {name: lag for name, lag in lags.items() if lag}

    lags = _settled(behind, lambda: is_running(place, version.title, connection.settings), patience)
    if lags:
        output, lag = max(lags.items(), key=lambda each: each[1])
        flag = "" if version.name == FIRST else f" --rebuild as {version.name}"
        raise VersionRefused(
            f"Version {version.name} of {version.flow} is {lag:,} records behind (output {output})."
            f" Let it catch up with `headrace run FILE{flag} --once`, or promote it as it is with "
            "--force: its outputs are then incomplete until it has."
        )


def _settled(
    behind: Callable[[], dict[str, int]], running: Callable[[], bool], patience: float
) -> dict[str, int]:
    deadline = time.monotonic() + patience
    while (lags := behind()) and time.monotonic() < deadline and running():
        time.sleep(_LOOK_SECONDS)
    return lags


def _switched(registry: Registry, before: Version, after: Version) -> dict[str, tuple[str, str]]:
    versions = registry.flows[after.flow].versions
    stood = _topics(versions.get(before.name, {}))
    stands = _topics(versions[after.name])
    return {name: (stood.get(name, name), topic) for name, topic in sorted(stands.items())}


def _topics(outputs: Mapping[str, StoredOutput]) -> dict[str, str]:
    return {
        each.topic: each.writes
        for each in outputs.values()
        if each.topic is not None and each.writes is not None
    }


def _readers(registry: Registry, version: Version, names: set[str]) -> tuple[str, ...]:
    return tuple(
        flow
        for flow, stored in sorted(registry.flows.items())
        if flow != version.flow
        if any(names & set(each.reads) for each in stored.versions.get(stored.current, {}).values())
    )


def _groups_on(cluster: Cluster, topics: set[str], registry: Registry) -> tuple[str, ...]:
    """Groups of other programs that have read one of the topics."""
    partitions = [
        Partition(each.name, number)
        for each in list_topics(cluster)
        if each.name in topics
        for number in range(each.partitions)
    ]
    own = tuple(
        f"{Version(flow, name).title}."
        for flow, stored in registry.flows.items()
        for name in stored.versions
    )
    with CommittedOffsets(cluster) as committed:
        return tuple(
            each.name
            for each in list_groups(cluster)
            if not each.internal and not each.name.startswith(own)
            if partitions and committed.of(each.name, partitions)
        )


def _groups_of(
    cluster: Cluster, outputs: Mapping[str, StoredOutput], version: Version
) -> list[str]:
    """The groups in which a version has told its progress, and its sinks theirs."""
    queries = [f"{version.title}.{name}" for name in outputs]
    sinks = tuple(f"{SINK_GROUPS}{each}." for each in queries)
    found = [each.name for each in list_groups(cluster)]
    return [each for each in found if each in queries or each.startswith(sinks)]


def _delete(cluster: Cluster, group: str) -> None:
    try:
        delete_group(cluster, group)
    except UnknownGroup:
        return
    except GroupInUse as error:
        raise VersionRefused(f"Somebody reads with the group {group}: {error}") from None


def _deleted(cluster: Cluster, topic: str) -> bool:
    try:
        delete_topic(cluster, topic)
    except UnknownTopic:
        return False
    return True
