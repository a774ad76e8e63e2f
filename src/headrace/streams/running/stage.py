"""What of a flow is run: one version of it, where that keeps what it knows, and what it reads.

A plain run is of the current version, `--rebuild as NAME` of the version of that name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.kafka import Cluster, ConfigOrigin, ensure_topic, list_topics, topic_config
from headrace.streams.errors import InvalidFlow
from headrace.streams.names import did_you_mean
from headrace.streams.outputs import Output, SinkOutput, StoreOutput, TopicOutput, query_names
from headrace.streams.plan import sources
from headrace.streams.running.errors import VersionRefused
from headrace.streams.running.places import Place, root_of
from headrace.streams.running.registry import Registry, RegistryFile, StoredOutput
from headrace.streams.versions import FIRST, Version, checked_version, resolved

if TYPE_CHECKING:
    from headrace.streams.flow import Flow


@dataclass(frozen=True, slots=True)
class Stage:
    """A version of a flow, ready to be prepared."""

    flow: "Flow"
    version: Version
    root: Place
    outputs: tuple[Output, ...]
    aliases: Mapping[str, str]
    """What names of topics stand for: of other flows what is current, of this one its own."""

    replaces: Mapping[str, str]
    """What names of topics stand for to everybody else, as long as nothing is promoted."""

    known: bool
    """Whether this version has run before."""

    @property
    def place(self) -> Place:
        """The directory of the version."""
        return self.root.child(self.version.title)

    def require_topics(self) -> None:
        """Refuse a topic to read that does not exist, and one to write that somebody else has."""
        present = {each.name for each in list_topics(Cluster(self.flow.settings.kafka))}
        own = self.version.topics(self.flow.outputs)
        for output in self.outputs:
            for read in sources(output.node):
                for topic in resolved(read.topics, self.aliases):
                    if topic not in present and (self._is_first or topic not in own.values()):
                        self._refuse_missing(topic, present)
        taken = sorted(present & set(own.values()))
        if taken and not self._is_first and not self.known:
            raise VersionRefused(
                f"Version {self.version.name} of flow {self.version.flow} would write the topic "
                f"{taken[0]}, which exists already and is not of this version. Choose another "
                "name for the version, or delete that topic."
            )

    def note(self) -> None:
        """Remember the version, and give it topics like those it is to take the place of."""
        outputs = zip(self.flow.outputs, self.outputs, strict=True)
        queries = query_names(self.outputs)
        noted = {each.name: self._noted(given, each, queries[each]) for given, each in outputs}
        RegistryFile(self.root).change(lambda registry: registry.noted(self.version, noted))
        if not self._is_first:
            for given, each in zip(self.flow.outputs, self.outputs, strict=True):
                self._create_alike(given, each)

    @property
    def _is_first(self) -> bool:
        return self.version.name == FIRST

    def _noted(self, given: Output, output: Output, query: str) -> StoredOutput:
        reads = list(sources(output.node))
        topics = [topic for read in reads for topic in read.topics]
        return StoredOutput(
            reads=dict(zip(topics, resolved(topics, self.aliases), strict=True)),
            patterns=tuple(read.pattern for read in reads if read.pattern is not None),
            topic=None if isinstance(given, SinkOutput | StoreOutput) else given.topic,
            writes=None if isinstance(output, SinkOutput | StoreOutput) else output.topic,
            query=None if query == output.name else query,
        )

    def _create_alike(self, given: Output, output: Output) -> None:
        """Create a topic with the partitions and the configuration of the one it stands beside."""
        stored = SinkOutput | StoreOutput
        if isinstance(given, stored) or isinstance(output, stored):
            return
        cluster = Cluster(self.flow.settings.kafka)
        partitions = output.partitions if isinstance(output, TopicOutput) else None
        counts = {each.name: each.partitions for each in list_topics(cluster)}
        compacted = isinstance(output, TopicOutput) and output.compacted
        config = {"cleanup.policy": "compact"} if compacted else {}
        like = self.replaces.get(given.topic, given.topic)
        if like in counts:
            partitions = partitions or counts[like]
            config = {
                each.name: each.value
                for each in topic_config(cluster, like)
                if each.origin is ConfigOrigin.TOPIC and each.value is not None
            }
        ensure_topic(cluster, output.topic, partitions=partitions, config=config)

    def _refuse_missing(self, topic: str, present: set[str]) -> None:
        visible = sorted(name for name in present if not name.startswith("__"))
        raise InvalidFlow(
            f"Flow {self.flow.name} reads the topic {topic}, which does not exist at "
            f"{self.flow.settings.kafka.bootstrap}; {did_you_mean(topic, visible)}"
        )


def stage_of(flow: "Flow", rebuild: str | None = None) -> Stage:
    """The version of a flow that is to be run: the one to be rebuilt, else the current one."""
    if not flow.outputs:
        raise InvalidFlow(
            f"Flow {flow.name} writes nothing; add an output such as flow.topic(name, stream)."
        )
    root = root_of(flow.settings.streams, lambda: flow.spark)
    registry = RegistryFile(root).read()
    version = registry.current(flow.name)
    if rebuild is not None:
        version = _rebuilt(registry, Version(flow.name, checked_version(rebuild)))
    return Stage(
        flow,
        version,
        root,
        version.outputs(flow.outputs),
        {**registry.aliases, **version.topics(flow.outputs)},
        registry.aliases,
        registry.knows(version),
    )


def aliases_for(flow: "Flow") -> dict[str, str]:
    """What names of topics stand for in a flow that is not run but looked at."""
    root = root_of(flow.settings.streams, lambda: flow.spark)
    return RegistryFile(root).read().aliases


def _rebuilt(registry: Registry, version: Version) -> Version:
    if version.name == FIRST and not registry.knows(version):
        raise VersionRefused(
            f"{FIRST} is what flow {version.flow} itself is called, as it runs without --rebuild; "
            "give the new version another name, as in --rebuild as v2."
        )
    return version
