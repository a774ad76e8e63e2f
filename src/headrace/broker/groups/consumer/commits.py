"""Who may commit and fetch the offsets of a consumer group."""

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import ConsumerMember
from headrace.broker.groups.consumer.partitions import PartitionId
from headrace.broker.groups.errors import GroupError, unknown_member
from headrace.broker.groups.messages import Committer


def admit_commit(
    group: ConsumerGroup, committer: Committer, partitions: Iterable[PartitionId]
) -> None:
    """Check that a member may commit, or that somebody from outside may while there are none.

    A member whose epoch has risen since it sent its commit may still commit the partitions that it
    had then and has now: nobody else has worked on them in between (KIP-1251).
    """
    if committer.generation < 0 and not group.roster:
        return
    member = _member(group, committer.member_id)
    if not committer.knows_epochs:
        raise GroupError(
            ErrorCode.unsupported_version,
            "members of a consumer group commit with OffsetCommit version 9 or above",
        )
    if committer.generation == member.holding.epoch:
        return
    if not 0 <= committer.generation < member.holding.epoch or not all(
        member.holding.was_assigned_by(each, committer.generation) for each in partitions
    ):
        raise _stale(committer.generation, member)


def admit_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Check that whoever calls itself a member is one, in the epoch that it says."""
    if member_id is None and epoch < 0:
        return
    member = _member(group, member_id or "")
    if epoch != member.holding.epoch:
        raise _stale(epoch, member)


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.roster.get(member_id)
    if member is None:
        raise unknown_member(group.id, member_id)
    return member


def _stale(epoch: int, member: ConsumerMember) -> GroupError:
    return GroupError(
        ErrorCode.stale_member_epoch,
        f"{member.id} is in epoch {member.holding.epoch}, not {epoch}; try again in the new epoch",
    )
