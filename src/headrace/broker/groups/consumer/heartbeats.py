"""What a heartbeat means: joining, staying, and leaving in between."""

import uuid

from kio.schema.errors import ErrorCode

from headrace.broker.groups.consumer.assignors import ASSIGNORS
from headrace.broker.groups.consumer.expressions import compile_expression
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import ConsumerMember
from headrace.broker.groups.consumer.messages import (
    JOIN,
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Heartbeat,
    HeartbeatAnswer,
)
from headrace.broker.groups.consumer.reconciliation import Holding
from headrace.broker.groups.errors import GroupError, unknown_member


def check(heartbeat: Heartbeat) -> None:
    """Refuse a heartbeat that makes no sense, whatever the group is like."""
    problem = _problem(heartbeat)
    if problem is not None:
        raise GroupError(ErrorCode.invalid_request, problem)
    if heartbeat.assignor is not None and heartbeat.assignor not in ASSIGNORS:
        raise GroupError(
            ErrorCode.unsupported_assignor,
            f"there is no assignor {heartbeat.assignor!r}; set group.remote.assignor to one of "
            f"{', '.join(ASSIGNORS)}",
        )
    if heartbeat.topic_expression:
        compile_expression(heartbeat.topic_expression)


def _problem(heartbeat: Heartbeat) -> str | None:
    if heartbeat.epoch < LEAVE_FOR_A_WHILE:
        return f"{heartbeat.epoch} is no epoch"
    if heartbeat.epoch == LEAVE_FOR_A_WHILE and heartbeat.instance_id is None:
        return "only a static member can leave for a while: an instance id is missing"
    if heartbeat.epoch == JOIN:
        if heartbeat.rebalance_timeout_ms is None:
            return "a member that joins must tell its rebalance timeout"
        if heartbeat.owned is None or heartbeat.owned:
            return "a member that joins must own no partitions, and say so"
        if heartbeat.topic_names is None and heartbeat.topic_expression is None:
            return "a member that joins must name topics or give a regular expression for them"
    return None


def beat(group: ConsumerGroup, heartbeat: Heartbeat, *, max_size: int | None) -> HeartbeatAnswer:
    """Let a member join or go on; LogError if what changed cannot be stored.

    The member is told its assignment when it has changed, when it joins, and when it says so much
    that it may have missed an answer.
    """
    member = _member(group, heartbeat, max_size)
    before = member.holding
    group.describe_as(member, member.profile.updated(heartbeat))
    group.refresh()
    group.assign()
    group.move_on(member, heartbeat.owned)
    group.hear_from(member)
    stored = group.save()
    after = member.holding
    tell = (
        heartbeat.epoch == JOIN
        or heartbeat.is_full
        or after.assigned.keys() != before.assigned.keys()
    )
    return HeartbeatAnswer(
        member_id=member.id,
        epoch=after.epoch,
        heartbeat_interval_ms=group.times.heartbeat_interval_ms,
        assignment=after.share if tell else None,
        stored=stored,
    )


def leave(group: ConsumerGroup, heartbeat: Heartbeat) -> HeartbeatAnswer:
    """Let a member go for good, or a static one for a while."""
    member = _known(group, heartbeat)
    if heartbeat.epoch == LEAVE:
        group.remove(member, "it left")
    else:
        group.leave_for_a_while(member, LEAVE_FOR_A_WHILE)
    return HeartbeatAnswer(member_id=member.id, epoch=heartbeat.epoch, stored=group.save())


def _member(group: ConsumerGroup, heartbeat: Heartbeat, max_size: int | None) -> ConsumerMember:
    if heartbeat.epoch != JOIN:
        known = _known(group, heartbeat)
        _check_epoch(known, heartbeat)
        return known
    predecessor = group.roster.instance(heartbeat.instance_id)
    if predecessor is not None:
        return _returned(group, predecessor, heartbeat)
    return group.roster.get(heartbeat.member_id) or _newcomer(group, heartbeat, max_size)


def _newcomer(group: ConsumerGroup, heartbeat: Heartbeat, max_size: int | None) -> ConsumerMember:
    if max_size is not None and len(group.roster) >= max_size:
        raise GroupError(
            ErrorCode.group_max_size_reached,
            f"group {group.id!r} has {len(group.roster)} members already (group_consumer_max_size)",
        )
    member = group.new_member(heartbeat.member_id or str(uuid.uuid4()))
    group.admit(member)
    return member


def _returned(
    group: ConsumerGroup, predecessor: ConsumerMember, heartbeat: Heartbeat
) -> ConsumerMember:
    """A static member joins again: as itself, or as the next process after one that left."""
    if predecessor.holding.epoch != LEAVE_FOR_A_WHILE:
        if predecessor.id == heartbeat.member_id:
            return predecessor
        raise GroupError(
            ErrorCode.unreleased_instance_id,
            f"instance {heartbeat.instance_id!r} of group {group.id!r} is in use by "
            f"{predecessor.id}; stop that process, or wait until its session expires",
        )
    if predecessor.id == heartbeat.member_id:
        group.roster.hold(predecessor, Holding(assigned=predecessor.holding.assigned))
        return predecessor
    member = group.new_member(heartbeat.member_id or str(uuid.uuid4()))
    group.replace(predecessor, member)
    return member


def _known(group: ConsumerGroup, heartbeat: Heartbeat) -> ConsumerMember:
    """The member that a heartbeat speaks for."""
    if heartbeat.instance_id is None:
        member = group.roster.get(heartbeat.member_id)
        if member is None:
            raise unknown_member(group.id, heartbeat.member_id)
        return member
    member = group.roster.instance(heartbeat.instance_id)
    if member is None:
        raise unknown_member(group.id, heartbeat.member_id)
    if member.id != heartbeat.member_id:
        raise GroupError(
            ErrorCode.fenced_instance_id,
            f"instance {heartbeat.instance_id!r} of group {group.id!r} is another process now, "
            f"{member.id}; give every process its own group.instance.id",
        )
    return member


def _check_epoch(member: ConsumerMember, heartbeat: Heartbeat) -> None:
    """A member is in the epoch that it was told, or in the one before if it missed the answer."""
    holding = member.holding
    if heartbeat.epoch == holding.epoch:
        return
    missed_an_answer = (
        heartbeat.epoch == holding.previous_epoch
        and holding.epoch > heartbeat.epoch
        and heartbeat.owned is not None
        and heartbeat.owned <= holding.assigned.keys()
    )
    if not missed_an_answer:
        raise GroupError(
            ErrorCode.fenced_member_epoch,
            f"{member.id} is in epoch {holding.epoch} of its group, not {heartbeat.epoch}; it must "
            "drop its partitions and join again",
        )
