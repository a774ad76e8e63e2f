"""Metadata and DescribeTopicPartitions: which topics there are and who serves them."""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.handlers.operations import (
    CLUSTER_OPERATIONS,
    NOT_ASKED_FOR,
    TOPIC_OPERATIONS,
)
from headrace.broker.handlers.topics import journal_failure
from headrace.broker.protocol import Call, get
from headrace.broker.topics import NODE_ID, Topic, TopicError, check_name
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

FIRST_NULLABLE_TOPICS = 1
"""Before this version an empty list of topics meant all of them."""

FIRST_TOPIC_IDS = 12
"""Before this version topics cannot be asked for by their ids, whatever the schema says."""


async def metadata(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Describe the topics asked for, or all; make those that are missing, if that is wanted."""
    wanted = request.topics
    asks = get(request, "include_topic_authorized_operations", False)
    operations = TOPIC_OPERATIONS if asks else NOT_ASKED_FOR
    if wanted is None or (not wanted and call.version < FIRST_NULLABLE_TOPICS):
        topics = [_described(topic, call, operations) for topic in core.topics]
    else:
        create = core.settings.auto_create_topics and get(
            request, "allow_auto_topic_creation", True
        )
        before = len(core.topics)
        # A topic that is named a thousand times is described once, as Apache Kafka does.
        topics = [
            _find(core, one, call, operations, create=create) for one in dict.fromkeys(wanted)
        ]
        changing = len(core.topics) != before or core.unsettled(core.topics.journal)
        if changing and await journal_failure(core) is not None:
            topics = [
                _missing(call, one.name, get(one, "topic_id"), ErrorCode.leader_not_available)
                for one in topics
            ]
    host, port = call.address
    return call.reply.MetadataResponse(
        brokers=(call.reply.MetadataResponseBroker(node_id=core.node_id, host=host, port=port),),
        cluster_id=core.cluster_id,
        controller_id=core.node_id,
        topics=tuple(topics),
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if get(request, "include_cluster_authorized_operations", False)
        else NOT_ASKED_FOR,
        error_code=ErrorCode.none,
    )


def _find(core: "BrokerCore", wanted: Any, call: Call, operations: int, *, create: bool) -> Any:
    topic_id = get(wanted, "topic_id")
    if call.version < FIRST_TOPIC_IDS and (wanted.name is None or topic_id is not None):
        return _missing(call, wanted.name or "", None, ErrorCode.invalid_request)
    if topic_id is not None or wanted.name is None:
        topic = core.topics.by_id(topic_id)
        if topic is None:
            return _missing(call, None, topic_id, ErrorCode.unknown_topic_id)
        return _described(topic, call, operations)
    topic = core.topics.get(wanted.name)
    if topic is None and create:
        try:
            topic = core.topics.create(wanted.name, core.settings.partitions, {})
        except TopicError as error:
            return _missing(call, wanted.name, None, error.code)
        except LogError:
            # Clients ask again, and there may be room by then.
            return _missing(call, wanted.name, None, ErrorCode.leader_not_available)
    if topic is None:
        return _missing(call, wanted.name, None, missing_code(wanted.name))
    return _described(topic, call, operations)


def missing_code(name: str) -> ErrorCode:
    """Why there is no topic of a name: because there is none, or because there cannot be."""
    try:
        check_name(name)
    except TopicError as error:
        return error.code
    return ErrorCode.unknown_topic_or_partition


def _missing(call: Call, name: str | None, topic_id: Any, code: ErrorCode) -> Any:
    return call.reply.MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, partitions=()
    )


def _described(topic: Topic, call: Call, operations: int) -> Any:
    return call.reply.MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        partitions=tuple(
            call.reply.MetadataResponsePartition(**_partition(topic, index))
            for index in range(len(topic.partitions))
        ),
        topic_authorized_operations=operations,
    )


def _partition(topic: Topic, index: int) -> dict[str, object]:
    return {
        "error_code": ErrorCode.none,
        "partition_index": index,
        "leader_id": NODE_ID,
        "leader_epoch": topic.partitions[index].log.leader_epoch,
        "replica_nodes": (NODE_ID,),
        "isr_nodes": (NODE_ID,),
        # The protocol allows null here; Java's client does not.
        "eligible_leader_replicas": (),
        "last_known_elr": (),
    }


def describe_topic_partitions(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Describe topics in the order of their names, a bounded number of partitions at a time."""
    names = sorted({wanted.name for wanted in request.topics}) or sorted(
        topic.name for topic in core.topics
    )
    room = max(1, request.response_partition_limit)
    cursor = request.cursor
    described = []
    following = None
    for name in names:
        if cursor is not None and name < cursor.topic_name:
            continue
        if room == 0:
            following = call.reply.Cursor(topic_name=name, partition_index=0)
            break
        topic = core.topics.get(name)
        first = max(cursor.partition_index, 0) if cursor and name == cursor.topic_name else 0
        count = 0 if topic is None else max(0, min(room, len(topic.partitions) - first))
        described.append(
            call.reply.DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.none if topic else missing_code(name),
                name=name,
                topic_id=topic.id if topic else None,
                partitions=tuple(
                    call.reply.DescribeTopicPartitionsResponsePartition(**_partition(topic, index))
                    for index in range(first, first + count)
                )
                if topic
                else (),
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        room -= count
        if topic is not None and first + count < len(topic.partitions):
            following = call.reply.Cursor(topic_name=name, partition_index=first + count)
            break
    return call.reply.DescribeTopicPartitionsResponse(
        topics=tuple(described), next_cursor=following
    )
