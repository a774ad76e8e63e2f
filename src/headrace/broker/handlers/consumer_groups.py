"""Consumer groups on the wire: heartbeats, and looking at groups from outside (KIP-848).

The handlers are coroutines, for the reason given in `handlers.groups`.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.groups.consumer.messages import (
    ConsumerMemberDescription,
    Heartbeat,
    HeartbeatAnswer,
)
from headrace.broker.groups.consumer.partitions import PartitionId, Share, by_topic
from headrace.broker.groups.errors import GroupError
from headrace.broker.handlers.offsets import offsets_stored
from headrace.broker.handlers.operations import GROUP_OPERATIONS, NOT_ASKED_FOR
from headrace.broker.protocol import Call, get

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

CLIENTS_CHOOSE_IDS: Final = 1
"""The version from which on members bring their own ids."""

CONSUMER_MEMBER: Final = 1
"""A member that uses the new protocol, as opposed to a classic one in a group of both."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_UNCHANGED: Final = timedelta(milliseconds=-1)


async def consumer_group_heartbeat(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Let a member join, stay or leave; answered once what changed is safe."""
    try:
        answer = core.groups.beat(_read(request, call))
        if answer.stored:
            # A member works on a partition as soon as it is told so: the broker must not forget it.
            await offsets_stored(core)
    except GroupError as error:
        return call.reply.ConsumerGroupHeartbeatResponse(
            error_code=error.code,
            error_message=str(error),
            member_id=None,
            member_epoch=0,
            heartbeat_interval=timedelta(0),
            assignment=None,
        )
    return call.reply.ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.none,
        error_message=None,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval=answer.heartbeat_interval_ms * _MILLISECOND,
        assignment=_assignment(answer, call),
    )


async def consumer_group_describe(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Describe consumer groups and their members."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR
    return call.reply.ConsumerGroupDescribeResponse(
        groups=tuple(_describe(core, group_id, operations, call) for group_id in request.group_ids)
    )


def _read(request: Any, call: Call) -> Heartbeat:
    _check_texts(request, call)
    timeout = request.rebalance_timeout
    names = request.subscribed_topic_names
    owned = request.topic_partitions
    return Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if timeout == _UNCHANGED else timeout // _MILLISECOND,
        topic_names=None if names is None else frozenset(names),
        topic_expression=get(request, "subscribed_topic_regex"),
        assignor=request.server_assignor,
        owned=None if owned is None else _owned(owned),
        client_id=call.client_id or "",
        # Kafka reports a Java address, and tools expect the slash it begins with.
        client_host=f"/{call.client_host}",
    )


def _check_texts(request: Any, call: Call) -> None:
    """What is given must not be empty; only in the first version a newcomer may have no id."""
    needs_id = call.version >= CLIENTS_CHOOSE_IDS or request.member_epoch not in (0, -2)
    texts = {
        "group id": request.group_id,
        "instance id": request.instance_id,
        "rack id": request.rack_id,
        "member id": request.member_id if needs_id else None,
    }
    for name, text in texts.items():
        if text == "":
            raise GroupError(ErrorCode.invalid_request, f"the {name} is empty")


def _owned(topics: Any) -> Share:
    return frozenset(
        PartitionId(topic.topic_id, number)
        for topic in topics
        if topic.topic_id is not None
        for number in topic.partitions
    )


def _assignment(answer: HeartbeatAnswer, call: Call) -> Any:
    if answer.assignment is None:
        return None
    return call.reply.Assignment(
        topic_partitions=tuple(
            call.reply.TopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
            for topic_id, numbers in by_topic(answer.assignment).items()
        )
    )


def _describe(core: "BrokerCore", group_id: str, operations: int, call: Call) -> Any:
    try:
        group = core.groups.describe_consumer_group(group_id)
    except GroupError as error:
        return call.reply.DescribedGroup(
            error_code=error.code,
            error_message=str(error),
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=(),
            authorized_operations=NOT_ASKED_FOR,
        )
    return call.reply.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(core, member, call) for member in group.members),
        authorized_operations=operations,
    )


def _member(core: "BrokerCore", member: ConsumerMemberDescription, call: Call) -> Any:
    return call.reply.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topic_names)),
        subscribed_topic_regex=member.topic_expression,
        assignment=_named(core, member.assignment, call),
        target_assignment=_named(core, member.target, call),
        member_type=CONSUMER_MEMBER,
    )


def _named(core: "BrokerCore", share: Share, call: Call) -> Any:
    """Partitions with the names of their topics; those of deleted topics are not worth telling."""
    topics = ((core.topics.by_id(each), numbers) for each, numbers in by_topic(share).items())
    return call.reply.Assignment(
        topic_partitions=tuple(
            call.reply.TopicPartitions(
                topic_id=topic.id, topic_name=topic.name, partitions=tuple(numbers)
            )
            for topic, numbers in topics
            if topic is not None
        )
    )
