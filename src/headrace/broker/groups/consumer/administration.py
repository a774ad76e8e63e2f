"""A consumer group as an administrator sees it, and members that an administrator removes."""

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.messages import Departed, Departure
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.messages import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
)


def describe(group: ConsumerGroup) -> ConsumerGroupDescription:
    """Describe a group and its members."""
    return ConsumerGroupDescription(
        group_id=group.id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.assignor,
        members=tuple(
            ConsumerMemberDescription(
                member_id=member.id,
                instance_id=member.profile.instance_id,
                rack_id=member.profile.rack_id,
                client_id=member.profile.client_id,
                client_host=member.profile.client_host,
                epoch=member.holding.epoch,
                topic_names=member.profile.topic_names,
                topic_expression=member.profile.topic_expression,
                assignment=member.holding.share,
                target=member.target,
            )
            for member in group.roster
        ),
    )


def dismiss(group: ConsumerGroup, departures: Sequence[Departure]) -> list[Departed]:
    """Remove members, by their ids or by their lasting names; each by itself."""
    departed = []
    for departure in departures:
        if departure.member_id:
            member = group.roster.get(departure.member_id)
        else:
            member = group.roster.instance(departure.instance_id)
        if member is not None:
            group.remove(member, departure.reason or "it was removed")
        code = ErrorCode.none if member is not None else ErrorCode.unknown_member_id
        departed.append(Departed(departure, code))
    group.save()
    return departed
