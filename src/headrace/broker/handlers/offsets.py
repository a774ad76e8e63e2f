"""Committed offsets on the wire.

All handlers are coroutines, for the reason given in `handlers.groups`. Up to version 9 of each API
topics go by their names, then by their ids.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.errors import GroupError
from headrace.broker.groups.messages import Committer
from headrace.broker.protocol import Call, get
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore
    from headrace.broker.topics import Topic

NOTHING_COMMITTED: Final = Committed(-1, -1, "", -1)
"""What a client is told about a partition for which its group has no offset."""

FIRST_WITH_MEMBER_EPOCHS: Final = 9
"""The version of both APIs from which on members of consumer groups can use them."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_BROKERS_RETENTION: Final = timedelta(milliseconds=-1)


async def offsets_stored(core: "BrokerCore") -> None:
    """Wait until every change of offsets made so far is safe."""
    try:
        await core.journaled(core.offsets.journal)
    except LogError as error:
        raise GroupError(ErrorCode.coordinator_not_available, str(error)) from error


async def offset_commit(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Commit offsets; answered once they are safe."""
    found = [_find(core, topic) for topic in request.topics]
    now_ms = core.clock.now_ms()
    retention = get(request, "retention_time", _BROKERS_RETENTION)
    expires_at_ms = None if retention == _BROKERS_RETENTION else now_ms + retention // _MILLISECOND
    offsets = {
        where: Committed(
            partition.committed_offset,
            get(partition, "committed_leader_epoch", -1),
            partition.committed_metadata or "",
            now_ms,
            expires_at_ms,
        )
        for where, partition in _existing(request.topics, found)
    }
    committer = Committer(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=get(request, "group_instance_id"),
        generation=request.generation_id_or_member_epoch,
        knows_epochs=call.version >= FIRST_WITH_MEMBER_EPOCHS,
    )
    codes: Mapping[TopicPartition, ErrorCode] = {}
    try:
        if offsets:
            codes = core.groups.commit_offsets(committer, offsets)
            await offsets_stored(core)
    except GroupError as error:
        missing_group = error.code is ErrorCode.group_id_not_found and call.version < 9
        codes = dict.fromkeys(
            offsets, ErrorCode.illegal_generation if missing_group else error.code
        )
    return call.reply.OffsetCommitResponse(
        topics=tuple(
            call.reply.OffsetCommitResponseTopic(
                name=get(asked, "name"),
                topic_id=get(asked, "topic_id"),
                partitions=tuple(
                    call.reply.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_code(codes, asked, topic, partition.partition_index),
                    )
                    for partition in asked.partitions
                ),
            )
            for asked, topic in zip(request.topics, found, strict=True)
        )
    )


async def offset_fetch(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Tell what groups have committed: one group up to version 7, then any number."""
    require_stable = get(request, "require_stable", False)
    if call.version < 8:
        code, topics = await _fetch(core, request, call, require_stable=require_stable)
        return call.reply.OffsetFetchResponse(error_code=code, topics=topics)
    fetched = [
        (group.group_id, *await _fetch(core, group, call, require_stable=require_stable))
        for group in request.groups
    ]
    return call.reply.OffsetFetchResponse(
        groups=tuple(
            call.reply.OffsetFetchResponseGroup(group_id=group_id, error_code=code, topics=topics)
            for group_id, code, topics in fetched
        )
    )


async def offset_delete(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Delete offsets in topics that a group does not read."""
    found = [_find(core, topic) for topic in request.topics]
    partitions = [where for where, _ in _existing(request.topics, found)]
    try:
        codes = core.groups.delete_offsets(request.group_id, partitions)
        await offsets_stored(core)
    except GroupError as error:
        return call.reply.OffsetDeleteResponse(error_code=error.code, topics=())
    return call.reply.OffsetDeleteResponse(
        error_code=ErrorCode.none,
        topics=tuple(
            call.reply.OffsetDeleteResponseTopic(
                name=asked.name,
                partitions=tuple(
                    call.reply.OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_code(codes, asked, topic, partition.partition_index),
                    )
                    for partition in asked.partitions
                ),
            )
            for asked, topic in zip(request.topics, found, strict=True)
        ),
    )


async def _fetch(
    core: "BrokerCore", group: Any, call: Call, *, require_stable: bool
) -> tuple[ErrorCode, tuple[Any, ...]]:
    """One group's offsets in the topics asked for, or in every topic where none are named."""
    try:
        offsets = core.groups.fetch_offsets(
            group.group_id, get(group, "member_id"), get(group, "member_epoch", -1)
        )
        pending: frozenset[TopicPartition] = frozenset()
        if require_stable:
            # What must not be seen yet is what could still change or be taken back: offsets that
            # open transactions have sent, and those that wait for the disk.
            offsets, pending = dict(offsets), core.groups.pending_offsets(group.group_id)
            await offsets_stored(core)
    except GroupError as error:
        return error.code, _refuse(group, error.code, call)
    if group.topics is None:
        return ErrorCode.none, tuple(_fetch_every(core, offsets, pending, call))
    return ErrorCode.none, tuple(
        _fetch_named(core, asked, offsets, pending, call) for asked in group.topics
    )


def _refuse(group: Any, code: ErrorCode, call: Call) -> tuple[Any, ...]:
    """In version 1 only partitions can carry an error."""
    if call.version > 1:
        return ()
    return tuple(
        _fetched(
            call,
            asked.name,
            None,
            dict.fromkeys(asked.partition_indexes, NOTHING_COMMITTED),
            dict.fromkeys(asked.partition_indexes, code),
        )
        for asked in group.topics
    )


def _fetch_named(
    core: "BrokerCore",
    asked: Any,
    offsets: Mapping[TopicPartition, Committed],
    pending: Container[TopicPartition],
    call: Call,
) -> Any:
    """Offsets in a topic that the client asks for; an id must be known, a name need not."""
    topic = _find(core, asked)
    name = topic.name if topic is not None else get(asked, "name", "")
    found = {
        index: offsets.get(TopicPartition(name, index), NOTHING_COMMITTED)
        for index in asked.partition_indexes
    }
    if call.version >= 10 and topic is None:
        codes = dict.fromkeys(found, ErrorCode.unknown_topic_id)
    else:
        codes = _unstable(name, found, pending)
    return _fetched(call, name, get(asked, "topic_id"), found, codes)


def _unstable(
    name: str, partitions: dict[int, Committed], pending: Container[TopicPartition]
) -> dict[int, ErrorCode]:
    """Replace the offsets that are about to change; the codes that say so."""
    codes = {}
    for index in partitions:
        if TopicPartition(name, index) in pending:
            partitions[index] = NOTHING_COMMITTED
            codes[index] = ErrorCode.unstable_offset_commit
    return codes


def _fetch_every(
    core: "BrokerCore",
    offsets: Mapping[TopicPartition, Committed],
    pending: frozenset[TopicPartition],
    call: Call,
) -> Iterator[Any]:
    """Offsets in every topic for which the group has any."""
    by_topic: dict[str, dict[int, Committed]] = {}
    for where, committed in offsets.items():
        by_topic.setdefault(where.topic, {})[where.partition] = committed
    for where in pending:
        by_topic.setdefault(where.topic, {})[where.partition] = NOTHING_COMMITTED
    for name, partitions in by_topic.items():
        topic = core.topics.get(name)
        if topic is not None:
            codes = _unstable(name, partitions, pending)
            yield _fetched(call, name, topic.id, partitions, codes)


def _fetched(
    call: Call,
    name: str,
    topic_id: UUID | None,
    partitions: Mapping[int, Committed],
    codes: Mapping[int, ErrorCode],
) -> Any:
    """One topic of the reply; its classes got new names when the reply got several groups."""
    plural = "s" if call.version >= 8 else ""
    new_topic = getattr(call.reply, "OffsetFetchResponseTopic" + plural)
    new_partition = getattr(call.reply, "OffsetFetchResponsePartition" + plural)
    return new_topic(
        name=name,
        topic_id=topic_id,
        partitions=tuple(
            new_partition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=codes.get(index, ErrorCode.none),
            )
            for index, committed in partitions.items()
        ),
    )


def _find(core: "BrokerCore", topic: Any) -> "Topic | None":
    """The topic that a request means, by name or by id."""
    if hasattr(topic, "topic_id"):
        return core.topics.by_id(topic.topic_id)
    return core.topics.get(topic.name)


def _existing(
    topics: Iterable[Any], found: Iterable["Topic | None"]
) -> Iterator[tuple[TopicPartition, Any]]:
    """The partitions in a request that exist."""
    for asked, topic in zip(topics, found, strict=True):
        if topic is not None:
            for partition in asked.partitions:
                if 0 <= partition.partition_index < len(topic.partitions):
                    yield TopicPartition(topic.name, partition.partition_index), partition


def _code(
    codes: Mapping[TopicPartition, ErrorCode], asked: Any, topic: "Topic | None", partition: int
) -> ErrorCode:
    """What came of a partition; those that do not exist were never tried."""
    if topic is not None:
        where = TopicPartition(topic.name, partition)
        return codes.get(where, ErrorCode.unknown_topic_or_partition)
    if hasattr(asked, "topic_id"):
        return ErrorCode.unknown_topic_id
    return ErrorCode.unknown_topic_or_partition
