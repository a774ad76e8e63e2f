"""How the group coordinator refuses a request."""

import contextlib
from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from headrace.errors import HeadraceError
from headrace.log.errors import LogError


class GroupError(HeadraceError):
    """A request to a group that is refused; `code` is what the client is told."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class MemberIdRequired(GroupError):
    """A new member is given its id and must join again with it (KIP-394).

    A client whose first join is lost would otherwise leave a member behind with every retry.
    """

    def __init__(self, member_id: str) -> None:
        super().__init__(
            ErrorCode.member_id_required, f"join again with the member id {member_id!r}"
        )
        self.member_id = member_id


def unknown_member(group_id: str, member_id: str) -> GroupError:
    """The group does not know the member: it was removed, or the broker has restarted."""
    return GroupError(
        ErrorCode.unknown_member_id,
        f"group {group_id!r} has no member {member_id!r}; join again without a member id",
    )


def rebalance_in_progress(group_id: str) -> GroupError:
    """The group is forming a new generation, which the member has to join."""
    return GroupError(
        ErrorCode.rebalance_in_progress, f"group {group_id!r} is rebalancing; join again"
    )


def illegal_generation(group_id: str, claimed: int, current: int) -> GroupError:
    """The member speaks for a generation that is not the group's current one."""
    return GroupError(
        ErrorCode.illegal_generation,
        f"group {group_id!r} is in generation {current}, not {claimed}; join again",
    )


def group_not_found(group_id: str) -> GroupError:
    """There is no such group."""
    return GroupError(ErrorCode.group_id_not_found, f"there is no group {group_id!r}")


def not_empty(group_id: str, members: int) -> GroupError:
    """The group has members, and what was asked for needs one without."""
    return GroupError(
        ErrorCode.non_empty_group, f"group {group_id!r} has {members} members; stop them first"
    )


@contextlib.contextmanager
def refusing_what_the_disk_refuses() -> Iterator[None]:
    """Tell a client to try again later where the journal cannot be written."""
    try:
        yield
    except LogError as error:
        raise GroupError(ErrorCode.coordinator_not_available, str(error)) from error
