"""What a request to join means, in every state of the group.

A join is answered at once, refused at once (`GroupError`), or waits as the member's parked request
until the next generation is complete.
"""

import asyncio
import uuid
from dataclasses import replace

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.group import ClassicGroup
from headrace.broker.groups.classic.member import Member
from headrace.broker.groups.classic.messages import Joined, JoinRequest
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.errors import GroupError, MemberIdRequired
from headrace.broker.groups.settings import GroupSettings

Reply = asyncio.Future[Joined]
"""Where the answer to a join goes."""


def check_session_timeout(request: JoinRequest, settings: GroupSettings) -> None:
    """Refuse a session timeout that is out of the broker's limits."""
    shortest, longest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
    if not shortest <= request.session_timeout_ms <= longest:
        raise GroupError(
            ErrorCode.invalid_session_timeout,
            f"a session timeout of {request.session_timeout_ms} ms is not between {shortest} and "
            f"{longest} ms; change the client's session.timeout.ms or the broker's limits",
        )


def join(group: ClassicGroup, request: JoinRequest, reply: Reply) -> None:
    """Let a newcomer or a member join the group's next generation."""
    if not _has_room(group, request.member_id):
        if request.member_id in group.pending:
            group.withdraw(request.member_id)
        raise GroupError(
            ErrorCode.group_max_size_reached,
            f"group {group.id!r} has {len(group.roster)} members already (max_group_size)",
        )
    _check_protocols(group, request)
    if request.member_id in group.pending and request.instance_id is None:
        _join_as(request.member_id, group, request, reply)
    elif request.member_id:
        member = group.roster.identify(request.member_id, request.instance_id)
        _rejoin(group, member, request, reply)
    else:
        _join_without_id(group, request, reply)


def abandon(group: ClassicGroup, reply: Reply) -> None:
    """Whoever waited for the reply has gone; a newcomer is not waited for any longer.

    It has never been a member, so it cannot leave: a consumer that is closed while it joins just
    closes its connection.
    """
    for member in group.roster:
        if member.is_new and member.joining.holds(reply):
            group.remove(member)
            group.rebalance(f"{member.id} went away while it joined")


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    limit = group.settings.max_group_size
    if limit is None or group.state is GroupState.EMPTY:
        return True
    member = group.roster.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        # Those who have not rejoined may never do so; only those who have take up room.
        return (member is not None and member.joining.waiting) or group.roster.joined_count < limit
    return member is not None or len(group.roster) < limit


def _check_protocols(group: ClassicGroup, request: JoinRequest) -> None:
    """A member must be of the group's kind and share a protocol with everybody in it."""
    offered = {name for name, _ in request.protocols}
    common = group.roster.common_protocols() if group.roster else offered
    right_type = request.protocol_type == group.protocol_type
    if group.state is GroupState.EMPTY:
        right_type = request.protocol_type != ""
    if not (right_type and offered & common):
        raise GroupError(
            ErrorCode.inconsistent_group_protocol,
            f"group {group.id!r} is of type {group.protocol_type!r} and its members support "
            f"{sorted(common)}; the member that joins is of type {request.protocol_type!r} and "
            f"supports {sorted(offered)}",
        )


def _join_without_id(group: ClassicGroup, request: JoinRequest, reply: Reply) -> None:
    member_id = f"{request.instance_id or request.client_id}-{uuid.uuid4()}"
    predecessor = group.roster.instance(request.instance_id)
    if predecessor is not None:
        _take_over(group, predecessor, member_id, request, reply)
    elif request.instance_id is None and request.requires_member_id:
        group.expect(member_id, request.session_timeout_ms)
        raise MemberIdRequired(member_id)
    else:
        _join_as(member_id, group, request, reply)


def _join_as(member_id: str, group: ClassicGroup, request: JoinRequest, reply: Reply) -> None:
    newcomer = _new_member(member_id, group, request)
    newcomer.is_new = True
    newcomer.joining.wait(reply)
    group.admit(newcomer, request.protocol_type)


def _rejoin(group: ClassicGroup, member: Member, request: JoinRequest, reply: Reply) -> None:
    unchanged = request.protocols == member.protocols
    # A leader that joins again asks for a rebalance: it has seen something that its metadata does
    # not show, such as a topic with new partitions.
    leads = member.id == group.roster.leader
    if group.state is GroupState.COMPLETING_REBALANCE and unchanged:
        # The answer to its earlier join may have been lost.
        reply.set_result(group.joined(member))
    elif group.state is GroupState.STABLE and unchanged and not leads:
        reply.set_result(group.joined(member))
    else:
        group.roster.change_protocols(member, request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.joining.wait(reply)
        group.rebalance(f"{member.id} joins again: {request.reason or 'no reason given'}")


def _take_over(
    group: ClassicGroup, predecessor: Member, member_id: str, request: JoinRequest, reply: Reply
) -> None:
    """A static member's new process takes the place of the old one (KIP-345).

    In a stable group it takes over the assignment too and nobody else notices, provided that the
    group would still choose the same protocol.
    """
    previous_leader = group.roster.leader or ""
    member = _new_member(member_id, group, request)
    member.assignment = predecessor.assignment
    fence = GroupError(
        ErrorCode.fenced_instance_id,
        f"instance {request.instance_id!r} of group {group.id!r} has been started again elsewhere",
    )
    group.replace(predecessor, member, fence)
    if group.state is GroupState.STABLE and group.roster.elect_protocol() == group.protocol_name:
        reply.set_result(_taken_over(group, member, previous_leader, request))
    else:
        member.joining.wait(reply)
        group.rebalance(f"{member.id} takes over from {predecessor.id}")


def _taken_over(
    group: ClassicGroup, member: Member, previous_leader: str, request: JoinRequest
) -> Joined:
    """The running generation, told so that a new leader does not assign the work once more."""
    joined = group.joined(member)
    if request.may_skip_assignment:
        return replace(joined, skip_assignment=member.id == group.roster.leader)
    # To an older client the leader is whoever led before: not itself, so it waits for its share.
    return replace(joined, leader=previous_leader, members=())


def _new_member(member_id: str, group: ClassicGroup, request: JoinRequest) -> Member:
    return Member(
        id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
        session=group.new_session(),
    )
