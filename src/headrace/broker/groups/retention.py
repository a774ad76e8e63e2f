"""When committed offsets have outlived their use."""

from collections.abc import Callable, Mapping

from headrace.broker.groups.classic.group import ClassicGroup
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.entries import Committed, TopicPartition


def expired_offsets(
    group: ClassicGroup | ConsumerGroup,
    offsets: Mapping[TopicPartition, Committed],
    retention_ms: int,
    now_ms: int,
) -> list[TopicPartition]:
    """The offsets of a group that may be removed (KIP-211).

    An offset's time is counted from its commit if the group never had members, or has members that
    no longer read the topic; from the group becoming empty if it had members; and not at all while
    members read the topic or a rebalance is under way. A client that asked for a retention of its
    own gets that instead, from the commit on.
    """
    began = _retention_began(group)
    if began is None:
        return []
    return [
        where
        for where, committed in offsets.items()
        if not group.is_subscribed_to(where.topic)
        and now_ms
        >= (
            began(committed) + retention_ms
            if committed.expires_at_ms is None
            else committed.expires_at_ms
        )
    ]


def has_nothing_left(group: ClassicGroup | ConsumerGroup) -> bool:
    """Whether a group may go as soon as it has no offsets."""
    return group.is_empty and not (isinstance(group, ClassicGroup) and group.pending)


def _retention_began(group: ClassicGroup | ConsumerGroup) -> Callable[[Committed], int] | None:
    if isinstance(group, ConsumerGroup):
        since_ms = group.empty_since_ms
        return _committed_at if since_ms is None else lambda _committed: since_ms
    if group.protocol_type is None:
        return _committed_at
    if group.state is GroupState.EMPTY:
        return lambda _committed: group.state_since_ms
    if group.state is GroupState.STABLE and group.subscribed_topics is not None:
        return _committed_at
    return None


def _committed_at(committed: Committed) -> int:
    return committed.committed_at_ms
