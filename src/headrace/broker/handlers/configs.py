"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.handlers.topics import (
    SOURCE_DEFAULT,
    SOURCE_TOPIC,
    error_code,
    journal_failure,
)
from headrace.broker.protocol import Call, get
from headrace.broker.topic_configs import TOPIC_CONFIGS, ConfigType, InvalidConfig
from headrace.broker.topics import Topic, TopicError, check_name
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

TOPIC = 2
BROKER = 4
CLIENT_METRICS = 16
RESOURCE_TYPES = frozenset({TOPIC, BROKER, 8, CLIENT_METRICS, 32})
"""What Kafka keeps configurations of; 8 are loggers and 32 groups."""

SOURCE_STATIC_BROKER = 4

SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations of IncrementalAlterConfigs."""


def describe_configs(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Tell every key of the topics and brokers asked for, or only the keys asked for."""
    results = []
    for resource in request.resources:
        code, message = ErrorCode.none, ""
        configs: tuple[Any, ...] = ()
        try:
            configs = _describe(core, resource, request, call)
        except TopicError as error:
            code, message = error.code, str(error)
        results.append(
            call.reply.DescribeConfigsResult(
                error_code=code,
                error_message=message or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=configs,
            )
        )
    return call.reply.DescribeConfigsResponse(results=tuple(results))


def list_config_resources(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Name the topics and the broker, or those of them whose type is asked for.

    The other types that Kafka knows have no members here. The first version asks for one of those,
    client metrics, without saying so.
    """
    wanted = get(request, "resource_types", (CLIENT_METRICS,)) or (TOPIC, BROKER)
    unknown = not RESOURCE_TYPES.issuperset(wanted)
    names = {TOPIC: [topic.name for topic in core.topics], BROKER: [str(core.node_id)]}
    return call.reply.ListConfigResourcesResponse(
        error_code=ErrorCode.unsupported_version if unknown else ErrorCode.none,
        config_resources=tuple(
            call.reply.ConfigResource(resource_name=name, resource_type=kind)
            for kind in (() if unknown else dict.fromkeys(wanted))
            for name in names.get(kind, ())
        ),
    )


def _describe(core: "BrokerCore", resource: Any, request: Any, call: Call) -> tuple[Any, ...]:
    # No keys mean all keys, whether the list is null or empty.
    wanted = resource.configuration_keys or None
    synonyms = get(request, "include_synonyms", False)
    documented = get(request, "include_documentation", False)
    if resource.resource_type == TOPIC:
        topic = _topic(core, resource.resource_name)
        return tuple(
            _topic_config(topic, name, call, synonyms=synonyms, documented=documented)
            for name in TOPIC_CONFIGS
            if wanted is None or name in wanted
        )
    if resource.resource_type == BROKER:
        _check_broker(core, resource.resource_name)
        return tuple(
            call.reply.DescribeConfigsResourceResult(
                name=name,
                value=value,
                read_only=True,
                config_source=SOURCE_STATIC_BROKER,
                is_sensitive=False,
                synonyms=(),
                config_type=ConfigType.STRING,
                documentation=None,
            )
            for name, value in _broker_settings(core, call).items()
            if wanted is None or name in wanted
        )
    raise TopicError(
        ErrorCode.invalid_request, "Configurations belong to topics (2) and brokers (4)."
    )


def _broker_settings(core: "BrokerCore", call: Call) -> dict[str, str]:
    host, port = call.address
    return {"advertised.listeners": f"PLAINTEXT://{host}:{port}", **core.described()}


def _topic_config(topic: Topic, name: str, call: Call, *, synonyms: bool, documented: bool) -> Any:
    key = TOPIC_CONFIGS[name]
    source = SOURCE_TOPIC if name in topic.configs else SOURCE_DEFAULT
    value = topic.values[name]
    synonym = call.reply.DescribeConfigsSynonym
    return call.reply.DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=False,
        synonyms=(synonym(name=name, value=value, source=source),) if synonyms else (),
        config_type=key.type,
        documentation=key.documentation if documented else None,
    )


async def alter_configs(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Replace the whole configuration of topics."""
    results = _alter(
        core, request, lambda topic, configs: {each.name: each.value for each in configs}
    )
    return call.reply.AlterConfigsResponse(responses=await _altered(core, results, call))


async def incremental_alter_configs(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Change single keys of topics."""
    results = _alter(core, request, _changed)
    return call.reply.IncrementalAlterConfigsResponse(responses=await _altered(core, results, call))


async def _altered(
    core: "BrokerCore", results: list[tuple[Any, Exception | None]], call: Call
) -> tuple[Any, ...]:
    """What came of each resource, once the changes are safe."""
    failure = await journal_failure(core)
    return tuple(
        call.reply.AlterConfigsResourceResponse(
            error_code=error_code(error) if error else ErrorCode.none,
            error_message=str(error) if error else None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in ((resource, failure or error) for resource, error in results)
    )


def _alter(
    core: "BrokerCore", request: Any, change: Callable[[Topic, Any], dict[str, str | None]]
) -> list[tuple[Any, Exception | None]]:
    """Change each resource's configuration, or say why not."""
    asked = Counter((each.resource_type, each.resource_name) for each in request.resources)
    results: list[tuple[Any, Exception | None]] = []
    for resource in request.resources:
        keys = {config.name for config in resource.configs}
        try:
            if asked[resource.resource_type, resource.resource_name] > 1 or len(keys) < len(
                resource.configs
            ):
                raise TopicError(
                    ErrorCode.invalid_request, "A resource or one of its keys is named twice."
                )
            topic = _alterable(core, resource)
            configs = change(topic, resource.configs)
            core.topics.configure(topic, configs, validate_only=request.validate_only)
        except (TopicError, InvalidConfig, LogError) as error:
            results.append((resource, error))
        else:
            results.append((resource, None))
    return results


def _alterable(core: "BrokerCore", resource: Any) -> Topic:
    if resource.resource_type == TOPIC:
        return _topic(core, resource.resource_name)
    if resource.resource_type == BROKER:
        raise TopicError(
            ErrorCode.invalid_request,
            "A broker's settings are in headrace.toml, its environment and its flags; change them "
            "there and start it again.",
        )
    raise TopicError(ErrorCode.invalid_request, "Only topics (2) can be configured.")


def _changed(topic: Topic, changes: Any) -> dict[str, str | None]:
    configs: dict[str, str | None] = dict(topic.configs)
    for change in changes:
        name, value = change.name, change.value
        if change.config_operation == SET:
            if value is None:
                raise TopicError(ErrorCode.invalid_request, f"There is no value for {name}.")
            configs[name] = value
        elif change.config_operation == DELETE:
            configs.pop(name, None)
        elif change.config_operation in (APPEND, SUBTRACT):
            configs[name] = _list_changed(topic, name, value or "", change.config_operation)
        else:
            raise TopicError(
                ErrorCode.invalid_request, f"Unknown operation {change.config_operation}."
            )
    return configs


def _list_changed(topic: Topic, name: str, value: str, operation: int) -> str:
    key = TOPIC_CONFIGS.get(name)
    if key is None or key.type is not ConfigType.LIST:
        raise InvalidConfig(f"Can't append to or subtract from {name}, which is not a list")
    items = topic.values[name].split(",")
    if operation == APPEND:
        return ",".join([*items, value] if value not in items else items)
    return ",".join(item for item in items if item != value)


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
