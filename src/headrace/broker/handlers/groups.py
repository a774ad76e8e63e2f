"""Groups on the wire: who coordinates, joining and leaving, and looking at groups from outside.

What touches a group's state is a coroutine even where it never waits. Coroutines begin in the order
in which they are made, so the requests of a connection take effect in the order they arrived.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.messages import (
    Departed,
    Departure,
    JoinRequest,
    MemberProtocol,
    SyncRequest,
)
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.errors import GroupError, MemberIdRequired
from headrace.broker.groups.messages import GroupListing
from headrace.broker.handlers.offsets import offsets_stored
from headrace.broker.handlers.operations import GROUP_OPERATIONS, NOT_ASKED_FOR
from headrace.broker.protocol import Call, get

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

GROUP_KEY = 0
"""FindCoordinator asks for a group."""

TRANSACTION_KEY = 1
"""FindCoordinator asks for a transactional id."""

_MILLISECOND = timedelta(milliseconds=1)


def find_coordinator(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Name this broker, which coordinates everything there is."""
    coordinator = _coordinator(core, get(request, "key_type", GROUP_KEY), call)
    if call.version < 4:
        return call.reply.FindCoordinatorResponse(**coordinator)
    return call.reply.FindCoordinatorResponse(
        coordinators=tuple(
            call.reply.Coordinator(key=key, **coordinator) for key in request.coordinator_keys
        )
    )


async def join_group(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Join a group's next generation."""
    session_timeout_ms = request.session_timeout // _MILLISECOND
    try:
        joined = await core.groups.join(
            JoinRequest(
                group_id=request.group_id,
                member_id=request.member_id,
                instance_id=get(request, "group_instance_id"),
                client_id=call.client_id or "",
                # Kafka reports a Java address, and tools expect the slash it begins with.
                client_host=f"/{call.client_host}",
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=session_timeout_ms
                if call.version == 0
                else request.rebalance_timeout // _MILLISECOND,
                protocol_type=request.protocol_type,
                protocols=tuple(MemberProtocol(p.name, p.metadata) for p in request.protocols),
                reason=get(request, "reason"),
                requires_member_id=call.version >= 4,
                may_skip_assignment=call.version >= 9,
            )
        )
    except GroupError as error:
        return call.reply.JoinGroupResponse(
            error_code=error.code,
            generation_id=-1,
            protocol_type=None,
            protocol_name=None if call.version >= 7 else "",
            leader="",
            skip_assignment=False,
            member_id=error.member_id if isinstance(error, MemberIdRequired) else request.member_id,
            members=(),
        )
    return call.reply.JoinGroupResponse(
        error_code=ErrorCode.none,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            call.reply.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in joined.members
        ),
    )


async def sync_group(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Give a member its assignment, and take everybody's from the leader."""
    unstated = None if call.version < 5 else ""
    try:
        synced = await core.groups.sync(
            SyncRequest(
                group_id=request.group_id,
                member_id=request.member_id,
                generation=request.generation_id,
                instance_id=get(request, "group_instance_id"),
                protocol_type=get(request, "protocol_type") or unstated,
                protocol_name=get(request, "protocol_name") or unstated,
                assignments=tuple(
                    (each.member_id, each.assignment) for each in request.assignments
                ),
            )
        )
    except GroupError as error:
        return call.reply.SyncGroupResponse(
            error_code=error.code, protocol_type=None, protocol_name=None, assignment=b""
        )
    return call.reply.SyncGroupResponse(
        error_code=ErrorCode.none,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol_name,
        assignment=synced.assignment,
    )


async def heartbeat(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Keep a member in its group."""
    code = ErrorCode.none
    try:
        core.groups.heartbeat(
            request.group_id,
            request.member_id,
            get(request, "group_instance_id"),
            request.generation_id,
        )
    except GroupError as error:
        code = error.code
    return call.reply.HeartbeatResponse(error_code=code)


async def leave_group(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Let one member go, or from version 3 on any number of them."""
    leaving = request.members if call.version >= 3 else (request,)
    departed: list[Departed] = []
    code = ErrorCode.none
    try:
        departed = core.groups.leave(
            request.group_id,
            [
                Departure(each.member_id, get(each, "group_instance_id"), get(each, "reason"))
                for each in leaving
            ],
        )
    except GroupError as error:
        code = error.code
    if call.version < 3:
        code = departed[0].code if departed else code
        return call.reply.LeaveGroupResponse(error_code=code)
    return call.reply.LeaveGroupResponse(
        error_code=code,
        members=tuple(
            call.reply.MemberResponse(
                member_id=departure.member_id,
                group_instance_id=departure.instance_id,
                error_code=code,
            )
            for departure, code in departed
        ),
    )


async def list_groups(core: "BrokerCore", request: Any, call: Call) -> Any:
    """List the groups, or those in certain states or of certain types."""
    code = ErrorCode.none
    listed: list[GroupListing] = []
    try:
        listed = core.groups.list_groups(
            get(request, "states_filter", ()), get(request, "types_filter", ())
        )
    except GroupError as error:
        code = error.code
    return call.reply.ListGroupsResponse(
        error_code=code,
        groups=tuple(
            call.reply.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.kind.value,
            )
            for group in listed
        ),
    )


async def describe_groups(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Describe groups and their members."""
    operations = (
        GROUP_OPERATIONS if get(request, "include_authorized_operations") else NOT_ASKED_FOR
    )
    return call.reply.DescribeGroupsResponse(
        groups=tuple(_describe(core, group_id, operations, call) for group_id in request.groups)
    )


async def delete_groups(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Delete groups without members, and their offsets."""
    codes = {group_id: _delete(core, group_id) for group_id in dict.fromkeys(request.groups_names)}
    try:
        await offsets_stored(core)
    except GroupError as error:
        codes = dict.fromkeys(codes, error.code)
    return call.reply.DeleteGroupsResponse(
        results=tuple(
            call.reply.DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in codes.items()
        )
    )


def _coordinator(core: "BrokerCore", key_type: int, call: Call) -> dict[str, Any]:
    if key_type in (GROUP_KEY, TRANSACTION_KEY):
        host, port = call.address
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "node_id": core.node_id,
            "host": host,
            "port": port,
        }
    # Share-group state is coordinated among brokers only, and here there is no other.
    return {
        "error_code": ErrorCode.invalid_request,
        "error_message": f"there is no coordinator for key type {key_type}",
        "node_id": -1,
        "host": "",
        "port": -1,
    }


def _delete(core: "BrokerCore", group_id: str) -> ErrorCode:
    try:
        core.groups.delete(group_id)
    except GroupError as error:
        return error.code
    return ErrorCode.none


def _describe(core: "BrokerCore", group_id: str, operations: int, call: Call) -> Any:
    try:
        group = core.groups.describe(group_id)
    except GroupError as error:
        return _undescribed(group_id, error, operations, call)
    return call.reply.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=tuple(
            call.reply.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
        authorized_operations=operations,
    )


def _undescribed(group_id: str, error: GroupError, operations: int, call: Call) -> Any:
    """A group that cannot be described; before version 6, one that does not exist is just dead."""
    missing = error.code is ErrorCode.group_id_not_found
    just_dead = missing and call.version < 6
    return call.reply.DescribedGroup(
        error_code=ErrorCode.none if just_dead else error.code,
        error_message=str(error),
        group_id=group_id,
        group_state=GroupState.DEAD.value if missing else "",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=operations if just_dead else NOT_ASKED_FOR,
    )
