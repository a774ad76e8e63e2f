"""A group as an administrator sees it."""

from headrace.broker.groups.classic.group import ClassicGroup
from headrace.broker.groups.classic.messages import GroupDescription, MemberDescription
from headrace.broker.groups.classic.state import GroupState


def describe(group: ClassicGroup) -> GroupDescription:
    """Describe a group; what its members agreed on is shown only while it holds."""
    stable = group.state is GroupState.STABLE
    return GroupDescription(
        group_id=group.id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_name=(group.protocol_name or "") if stable else "",
        members=tuple(
            MemberDescription(
                member_id=member.id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(group.protocol_name) if stable else b"",
                assignment=member.assignment,
            )
            for member in group.roster
        ),
    )
