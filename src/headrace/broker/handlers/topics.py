"""CreateTopics, DeleteTopics and CreatePartitions."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.protocol import Call, get
from headrace.broker.topic_configs import TOPIC_CONFIGS, InvalidConfig
from headrace.broker.topics import Topic, TopicError
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

DEFAULT = -1
"""A number of partitions or replicas that the broker is to choose."""

SOURCE_TOPIC = 1
SOURCE_DEFAULT = 5


async def create_topics(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Make topics; each succeeds or fails by itself."""
    names = Counter(wanted.name for wanted in request.topics)
    wanted_topics = {wanted.name: wanted for wanted in request.topics}.values()
    results = []
    for wanted in wanted_topics:
        if names[wanted.name] > 1:
            error = TopicError(ErrorCode.invalid_request, "Duplicate topic name.")
            results.append(_create_failed(wanted.name, error, call))
            continue
        try:
            results.append(_create(core, wanted, call, validate_only=request.validate_only))
        except (TopicError, InvalidConfig, LogError) as error:
            results.append(_create_failed(wanted.name, error, call))
    if (failure := await journal_failure(core)) is not None:
        results = [_create_failed(wanted.name, failure, call) for wanted in wanted_topics]
    return call.reply.CreateTopicsResponse(topics=tuple(results))


def _create(core: "BrokerCore", wanted: Any, call: Call, *, validate_only: bool) -> Any:
    partitions = _partition_count(core, wanted)
    configs = {config.name: config.value for config in wanted.configs}
    topic: Topic | None = None
    if validate_only:
        core.topics.check_new(wanted.name, partitions, configs)
    else:
        topic = core.topics.create(wanted.name, partitions, configs)
    return call.reply.CreatableTopicResult(
        name=wanted.name,
        topic_id=topic.id if topic else None,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=partitions,
        replication_factor=1,
        configs=_shown(topic, call) if topic and call.version >= 5 else (),
    )


def _partition_count(core: "BrokerCore", wanted: Any) -> int:
    if not wanted.assignments:
        if wanted.replication_factor not in (DEFAULT, 1):
            raise TopicError(
                ErrorCode.invalid_replication_factor,
                f"Replication factor: {wanted.replication_factor} larger than available brokers: "
                "1. Headrace keeps one copy; a replicated log is Apache Kafka's job.",
            )
        if wanted.num_partitions == DEFAULT:
            return core.settings.partitions
        return int(wanted.num_partitions)
    if wanted.num_partitions != DEFAULT or wanted.replication_factor != DEFAULT:
        raise TopicError(
            ErrorCode.invalid_request,
            "A topic has either assignments or a number of partitions and replicas, not both.",
        )
    indexes = sorted(assignment.partition_index for assignment in wanted.assignments)
    _check_assignments(core, [assignment.broker_ids for assignment in wanted.assignments])
    if indexes != list(range(len(indexes))):
        raise TopicError(
            ErrorCode.invalid_replica_assignment, "Partitions must be numbered from 0 on."
        )
    return len(indexes)


def _check_assignments(core: "BrokerCore", assignments: list[Any]) -> None:
    if any(tuple(brokers) != (core.node_id,) for brokers in assignments):
        raise TopicError(
            ErrorCode.invalid_replica_assignment,
            f"Every partition must be assigned to broker {core.node_id}, the only one.",
        )


def _shown(topic: Topic, call: Call) -> tuple[Any, ...]:
    return tuple(
        call.reply.CreatableTopicConfigs(
            name=name,
            value=topic.values[name],
            read_only=False,
            config_source=SOURCE_TOPIC if name in topic.configs else SOURCE_DEFAULT,
            is_sensitive=False,
        )
        for name in TOPIC_CONFIGS
    )


def _create_failed(name: str, error: Exception, call: Call) -> Any:
    return call.reply.CreatableTopicResult(
        name=name,
        topic_id=None,
        error_code=error_code(error),
        error_message=str(error),
        configs=(),
    )


async def delete_topics(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Delete topics by name or, from version 6 on, by id."""
    wanted = get(request, "topics")
    if wanted is None:
        keys = [(name, None) for name in request.topic_names]
    else:
        keys = [(state.name, state.topic_id) for state in wanted]
    outcomes = []
    for (name, topic_id), times in Counter(keys).items():
        topic = core.topics.by_id(topic_id) if name is None else core.topics.get(name)
        code, message = ErrorCode.none, ""
        if times > 1 or (name is None) == (topic_id is None):
            code = ErrorCode.invalid_request
            message = "A topic is named once, either by its name or by its id."
        elif topic is None:
            code = (
                ErrorCode.unknown_topic_id if name is None else ErrorCode.unknown_topic_or_partition
            )
            message = "This server does not host this topic."
        else:
            try:
                core.delete_topic(topic)
            except LogError as error:
                code, message = error_code(error), str(error)
        found = (name, topic_id) if topic is None else (topic.name, topic.id)
        outcomes.append((*found, code, message))
    if (failure := await journal_failure(core)) is not None:
        told = error_code(failure), str(failure)
        outcomes = [(name, topic_id, *told) for name, topic_id, *_ in outcomes]
    return call.reply.DeleteTopicsResponse(
        responses=tuple(
            call.reply.DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=code, error_message=message or None
            )
            for name, topic_id, code, message in outcomes
        )
    )


async def create_partitions(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Give topics more partitions."""
    outcomes = []
    names = Counter(wanted.name for wanted in request.topics)
    for wanted in {wanted.name: wanted for wanted in request.topics}.values():
        code, message = ErrorCode.none, ""
        try:
            if names[wanted.name] > 1:
                raise TopicError(ErrorCode.invalid_request, "Duplicate topic name.")
            _grow(core, wanted, validate_only=request.validate_only)
        except (TopicError, LogError) as error:
            code, message = error_code(error), str(error)
        outcomes.append((wanted.name, code, message))
    if (failure := await journal_failure(core)) is not None:
        told = error_code(failure), str(failure)
        outcomes = [(name, *told) for name, *_ in outcomes]
    return call.reply.CreatePartitionsResponse(
        results=tuple(
            call.reply.CreatePartitionsTopicResult(
                name=name, error_code=code, error_message=message or None
            )
            for name, code, message in outcomes
        )
    )


def _grow(core: "BrokerCore", wanted: Any, *, validate_only: bool) -> None:
    topic = core.topics.get(wanted.name)
    if topic is None:
        raise TopicError(
            ErrorCode.unknown_topic_or_partition, f"The topic '{wanted.name}' does not exist."
        )
    core.topics.check_growth(topic, wanted.count)
    if wanted.assignments is not None:
        if len(wanted.assignments) != wanted.count - len(topic.partitions):
            raise TopicError(
                ErrorCode.invalid_replica_assignment,
                "There must be one assignment for each partition that is added.",
            )
        _check_assignments(core, [assignment.broker_ids for assignment in wanted.assignments])
    if not validate_only:
        core.topics.grow(topic, wanted.count)


async def journal_failure(core: "BrokerCore") -> LogError | None:
    """Wait until all changes of topics are safe; what the disk said if they are not."""
    try:
        await core.topics_stored()
    except LogError as error:
        return error
    return None


def error_code(error: Exception) -> ErrorCode:
    """The protocol's code for what the catalogue or the log raised."""
    if isinstance(error, TopicError):
        return error.code
    if isinstance(error, InvalidConfig):
        return ErrorCode.invalid_config
    return ErrorCode.kafka_storage_error
