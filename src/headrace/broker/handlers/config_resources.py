"""The things that have configurations: topics, groups, the broker, and its logger."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from kio.schema.errors import ErrorCode

from headrace.broker.described import described
from headrace.broker.groups.configs import GROUP_CONFIGS
from headrace.broker.protocol import Call
from headrace.broker.topic_configs import TOPIC_CONFIGS, ConfigType
from headrace.broker.topics import Topic, TopicError, check_name

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore


class ResourceType(IntEnum):
    """What Kafka keeps configurations of."""

    TOPIC = 2
    BROKER = 4
    LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """Where a value comes from."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    """One key as DescribeConfigs tells it."""

    name: str
    value: str
    source: Source
    type: ConfigType = ConfigType.STRING
    documentation: str | None = None
    read_only: bool = False
    synonym: str | None = None
    """The name under which the value was set; None where synonyms are not known."""


class Resource(Protocol):
    """Something that can be described, and perhaps be configured."""

    def describe(self) -> Iterable[DescribedConfig]:
        """Every key with its value."""
        ...

    @property
    def own(self) -> Mapping[str, str]:
        """What has been set for the resource itself."""
        ...

    def listed(self, name: str) -> str | None:
        """The value of a key that is a list; None if it is none."""
        ...

    def configure(self, configs: Mapping[str, str | None], *, validate_only: bool) -> None:
        """Replace what has been set, or only find out whether that is possible."""
        ...


@dataclass(frozen=True, slots=True)
class TopicResource:
    """A topic's configuration."""

    core: "BrokerCore"
    topic: Topic

    def describe(self) -> Iterable[DescribedConfig]:
        """Every key of a topic."""
        for name, key in TOPIC_CONFIGS.items():
            yield DescribedConfig(
                name=name,
                value=self.topic.values[name],
                source=Source.TOPIC if name in self.topic.configs else Source.DEFAULT,
                type=key.type,
                documentation=key.documentation,
                synonym=name,
            )

    @property
    def own(self) -> Mapping[str, str]:
        """What has been set for the topic."""
        return self.topic.configs

    def listed(self, name: str) -> str | None:
        """The value of a key that is a list."""
        key = TOPIC_CONFIGS.get(name)
        return self.topic.values[name] if key and key.type is ConfigType.LIST else None

    def configure(self, configs: Mapping[str, str | None], *, validate_only: bool) -> None:
        """Replace what has been set for the topic."""
        self.core.topics.configure(self.topic, configs, validate_only=validate_only)


@dataclass(frozen=True, slots=True)
class GroupResource:
    """A group's configuration; the group need not exist."""

    core: "BrokerCore"
    group_id: str

    def describe(self) -> Iterable[DescribedConfig]:
        """Every key of a group."""
        own = self.own
        for name, value in self.core.groups.configs.values(self.group_id).items():
            yield DescribedConfig(
                name=name,
                value=value,
                source=Source.GROUP if name in own else Source.DEFAULT,
                type=ConfigType.INT,
                documentation=GROUP_CONFIGS[name].documentation,
                synonym=name if name in own else f"group.{name}",
            )

    @property
    def own(self) -> Mapping[str, str]:
        """What has been set for the group."""
        return self.core.groups.configs.own(self.group_id)

    def listed(self, name: str) -> str | None:
        """No key of a group is a list."""
        return None

    def configure(self, configs: Mapping[str, str | None], *, validate_only: bool) -> None:
        """Replace what has been set for the group."""
        self.core.groups.configs.configure(self.group_id, configs, validate_only=validate_only)


@dataclass(frozen=True, slots=True)
class SettingsResource:
    """Settings that are told and not taken: the broker's, and those of things it does not have."""

    settings: Mapping[str, str]

    def describe(self) -> Iterable[DescribedConfig]:
        """Every setting."""
        for name, value in self.settings.items():
            yield DescribedConfig(
                name=name, value=value, source=Source.STATIC_BROKER, read_only=True
            )

    @property
    def own(self) -> Mapping[str, str]:
        """Nothing can be set."""
        return {}

    def listed(self, name: str) -> str | None:
        """Nothing can be changed."""
        return None

    def configure(self, configs: Mapping[str, str | None], *, validate_only: bool) -> None:
        """Refuse: settings are not changed over the protocol."""
        raise TopicError(
            ErrorCode.invalid_request,
            "A broker's settings are in headrace.toml, its environment and its flags; change them "
            "there and start it again.",
        )


def find(core: "BrokerCore", kind: int, name: str, call: Call) -> Resource:
    """The resource of a type and a name; TopicError if there cannot be one."""
    match kind:
        case ResourceType.TOPIC:
            return TopicResource(core, _topic(core, name))
        case ResourceType.GROUP:
            if not name:
                raise TopicError(ErrorCode.invalid_request, "A group needs a name.")
            return GroupResource(core, name)
        case ResourceType.BROKER:
            _check_broker(core, name)
            host, port = call.address
            listeners = {"advertised.listeners": f"PLAINTEXT://{host}:{port}"}
            return SettingsResource(listeners | described(core))
        case ResourceType.LOGGER:
            _check_broker(core, name)
            return SettingsResource({"headrace.broker": core.settings.log_level.upper()})
        case ResourceType.CLIENT_METRICS:
            return SettingsResource({})
    raise TopicError(ErrorCode.invalid_request, f"There are no configurations of type {kind}.")


def names(core: "BrokerCore") -> dict[ResourceType, list[str]]:
    """Everything that has a configuration, by type."""
    node = [str(core.node_id)]
    return {
        ResourceType.TOPIC: [topic.name for topic in core.topics],
        ResourceType.GROUP: list(core.groups.configs),
        ResourceType.BROKER: node,
        ResourceType.LOGGER: node,
        ResourceType.CLIENT_METRICS: [],
    }


def _topic(core: "BrokerCore", name: str) -> Topic:
    topic = core.topics.get(name)
    if topic is None:
        check_name(name)
        raise TopicError(
            ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
        )
    return topic


def _check_broker(core: "BrokerCore", name: str) -> None:
    if name not in ("", str(core.node_id)):
        raise TopicError(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {core.node_id} or empty string, but received {name}",
        )
