"""When committed offsets have outlived their use."""

from collections.abc import Callable, Mapping

from headrace.broker.groups.classic.group import ClassicGroup
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.entries import Committed, TopicPartition


def expired_offsets(
    group: ClassicGroup, offsets: Mapping[TopicPartition, Committed], now_ms: int
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
    retention_ms = group.settings.offsets_retention_ms
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


def has_nothing_left(group: ClassicGroup) -> bool:
    """Whether a group may go as soon as it has no offsets."""
    return group.state is GroupState.EMPTY and not group.pending


def _retention_began(group: ClassicGroup) -> Callable[[Committed], int] | None:
    if group.protocol_type is None:
        return _committed_at
    if group.state is GroupState.EMPTY:
        return lambda _committed: group.state_since_ms
    if group.state is GroupState.STABLE and group.subscribed_topics is not None:
        return _committed_at
    return None


def _committed_at(committed: Committed) -> int:
    return committed.committed_at_ms
