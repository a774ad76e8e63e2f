"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.groups.configs import InvalidGroupConfig
from headrace.broker.handlers.config_resources import (
    DescribedConfig,
    Resource,
    ResourceType,
    find,
    names,
)
from headrace.broker.handlers.topics import error_code, journal_failure
from headrace.broker.protocol import Call, get
from headrace.broker.topic_configs import InvalidConfig
from headrace.broker.topics import TopicError
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations of IncrementalAlterConfigs."""


def describe_configs(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Tell every key of the resources asked for, or only the keys asked for."""
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
    """Name everything that has a configuration, or what is of the types asked for.

    The first version asks for client metrics, of which there are none, without saying so.
    """
    known = names(core)
    wanted = get(request, "resource_types", (ResourceType.CLIENT_METRICS,)) or known
    unknown = not known.keys() >= set(wanted)
    return call.reply.ListConfigResourcesResponse(
        error_code=ErrorCode.unsupported_version if unknown else ErrorCode.none,
        config_resources=tuple(
            call.reply.ConfigResource(resource_name=name, resource_type=int(kind))
            for kind in (() if unknown else dict.fromkeys(wanted))
            for name in known[kind]
        ),
    )


def _describe(core: "BrokerCore", resource: Any, request: Any, call: Call) -> tuple[Any, ...]:
    # No keys mean all keys, whether the list is null or empty.
    wanted = resource.configuration_keys or None
    synonyms = get(request, "include_synonyms", False)
    documented = get(request, "include_documentation", False)
    found = find(core, resource.resource_type, resource.resource_name, call)
    return tuple(
        _described(config, call, synonyms=synonyms, documented=documented)
        for config in found.describe()
        if wanted is None or config.name in wanted
    )


def _described(config: DescribedConfig, call: Call, *, synonyms: bool, documented: bool) -> Any:
    synonym = call.reply.DescribeConfigsSynonym
    return call.reply.DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=int(config.source),
        is_sensitive=False,
        synonyms=(synonym(name=config.synonym, value=config.value, source=int(config.source)),)
        if synonyms and config.synonym is not None
        else (),
        config_type=config.type,
        documentation=config.documentation if documented else None,
    )


async def alter_configs(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Replace the whole configuration of topics and groups."""
    results = _alter(
        core, request, call, lambda _, configs: {each.name: each.value for each in configs}
    )
    return call.reply.AlterConfigsResponse(responses=await _altered(core, results, call))


async def incremental_alter_configs(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Change single keys of topics and groups."""
    results = _alter(core, request, call, _changed)
    return call.reply.IncrementalAlterConfigsResponse(responses=await _altered(core, results, call))


async def _altered(
    core: "BrokerCore", results: list[tuple[Any, Exception | None]], call: Call
) -> tuple[Any, ...]:
    """What came of each resource, once the changes are safe."""
    failure = await journal_failure(core)
    if any(resource.resource_type == ResourceType.GROUP for resource, _ in results):
        failure = failure or await _group_failure(core)
    return tuple(
        call.reply.AlterConfigsResourceResponse(
            error_code=_code(error) if error else ErrorCode.none,
            error_message=str(error) if error else None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in ((resource, failure or error) for resource, error in results)
    )


async def _group_failure(core: "BrokerCore") -> LogError | None:
    try:
        await core.journaled(core.offsets.journal)
    except LogError as error:
        return error
    return None


def _code(error: Exception) -> ErrorCode:
    if isinstance(error, InvalidGroupConfig):
        return ErrorCode.invalid_config
    return error_code(error)


def _alter(
    core: "BrokerCore",
    request: Any,
    call: Call,
    change: Callable[[Resource, Any], dict[str, str | None]],
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
            found = find(core, resource.resource_type, resource.resource_name, call)
            configs = change(found, resource.configs)
            found.configure(configs, validate_only=request.validate_only)
        except (TopicError, InvalidConfig, InvalidGroupConfig, LogError) as error:
            results.append((resource, error))
        else:
            results.append((resource, None))
    return results


def _changed(resource: Resource, changes: Any) -> dict[str, str | None]:
    configs: dict[str, str | None] = dict(resource.own)
    for change in changes:
        name, value = change.name, change.value
        if change.config_operation == SET:
            if value is None:
                raise TopicError(ErrorCode.invalid_request, f"There is no value for {name}.")
            configs[name] = value
        elif change.config_operation == DELETE:
            configs.pop(name, None)
        elif change.config_operation in (APPEND, SUBTRACT):
            configs[name] = _list_changed(resource, name, value or "", change.config_operation)
        else:
            raise TopicError(
                ErrorCode.invalid_request, f"Unknown operation {change.config_operation}."
            )
    return configs


def _list_changed(resource: Resource, name: str, value: str, operation: int) -> str:
    current = resource.listed(name)
    if current is None:
        raise InvalidConfig(f"Can't append to or subtract from {name}, which is not a list")
    items = current.split(",")
    if operation == APPEND:
        return ",".join([*items, value] if value not in items else items)
    return ",".join(item for item in items if item != value)
