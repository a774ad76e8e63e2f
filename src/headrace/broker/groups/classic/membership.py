"""What members of a generation ask for: their assignment, a sign of life, a commit, to leave."""

import asyncio
from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.group import ClassicGroup
from headrace.broker.groups.classic.messages import (
    Departed,
    Departure,
    Synced,
    SyncRequest,
)
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.errors import (
    GroupError,
    illegal_generation,
    rebalance_in_progress,
    unknown_member,
)
from headrace.broker.groups.messages import Committer


def sync(group: ClassicGroup, request: SyncRequest, reply: "asyncio.Future[Synced]") -> None:
    """Hand a member its assignment, as soon as the leader has brought it."""
    member = group.roster.identify(request.member_id, request.instance_id)
    if request.generation != group.generation:
        raise illegal_generation(group.id, request.generation, group.generation)
    _check_protocol(group, request)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise rebalance_in_progress(group.id)
    group.mark_synced(member)
    if group.state is GroupState.STABLE:
        reply.set_result(group.synced(member))
        return
    member.syncing.wait(reply)
    if member.id == group.roster.leader:
        group.assign(dict(request.assignments))


def heartbeat(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> None:
    """Keep a member's session alive; `REBALANCE_IN_PROGRESS` tells it to join again."""
    member = group.roster.identify(member_id, instance_id)
    if generation != group.generation:
        raise illegal_generation(group.id, generation, group.generation)
    group.hear_from(member)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise rebalance_in_progress(group.id)


def leave(group: ClassicGroup, departures: Sequence[Departure]) -> list[Departed]:
    """Let members go, and the rest of the group rebalance once."""
    departed = []
    size = len(group.roster)
    for departure in departures:
        try:
            _leave(group, departure)
        except GroupError as error:
            departed.append(Departed(departure, error.code))
        else:
            departed.append(Departed(departure, ErrorCode.none))
    if len(group.roster) < size:
        group.rebalance("members left: " + ", ".join(_reasons(departed)))
    return departed


def admit_commit(group: ClassicGroup, committer: Committer, *, transactional: bool = False) -> None:
    """Check that offsets may be committed; a member that commits is alive.

    Whoever has no generation may commit while the group has no members. A transaction may commit
    on nobody's behalf at any time: a producer of an old version does not know its member.
    """
    if committer.generation < 0 and group.state is GroupState.EMPTY:
        return
    if committer.is_nobody:
        if transactional:
            return
        raise GroupError(
            ErrorCode.unknown_member_id,
            f"group {group.id!r} has members, and only they may commit its offsets; stop them "
            "first or commit for another group",
        )
    member = group.roster.identify(committer.member_id, committer.instance_id)
    if committer.generation != group.generation:
        raise illegal_generation(group.id, committer.generation, group.generation)
    if group.state is GroupState.COMPLETING_REBALANCE and not transactional:
        # Its assignment is not known yet, so it can have nothing to commit for this generation.
        raise rebalance_in_progress(group.id)
    group.hear_from(member)


def _check_protocol(group: ClassicGroup, request: SyncRequest) -> None:
    if request.protocol_type in (None, group.protocol_type) and request.protocol_name in (
        None,
        group.protocol_name,
    ):
        return
    raise GroupError(
        ErrorCode.inconsistent_group_protocol,
        f"generation {group.generation} of group {group.id!r} uses the protocol "
        f"{group.protocol_type}/{group.protocol_name}, not "
        f"{request.protocol_type}/{request.protocol_name}",
    )


def _leave(group: ClassicGroup, departure: Departure) -> None:
    if departure.member_id in group.pending:
        group.withdraw(departure.member_id)
        return
    if departure.member_id:
        member = group.roster.identify(departure.member_id, departure.instance_id)
    else:
        found = group.roster.instance(departure.instance_id)
        if found is None:
            raise unknown_member(group.id, departure.instance_id or "")
        member = found
    group.remove(member)


def _reasons(departed: Sequence[Departed]) -> list[str]:
    return [
        f"{departure.member_id or departure.instance_id} ({departure.reason or 'no reason given'})"
        for departure, code in departed
        if code is ErrorCode.none
    ]
