"""What both kinds of groups have in common when they talk to the outside: values."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class GroupKind(StrEnum):
    """Who shares out the work of a group; the values are what clients call a group's type."""

    CLASSIC = "classic"
    """A member, which the others wait for."""
    CONSUMER = "consumer"
    """The coordinator (KIP-848)."""


class GroupListing(NamedTuple):
    """A group in the list of all groups."""

    group_id: str
    kind: GroupKind
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """On whose behalf offsets are committed.

    A consumer that assigns itself its partitions, or an administrator, has no generation (-1) and
    no member id.
    """

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    """The generation, or the member's epoch in a group of the consumer kind."""
    knows_epochs: bool = True
    """Whether the request is of a version in which members of consumer groups may commit."""

    @property
    def is_nobody(self) -> bool:
        """Whether nobody is named; an old client's transaction does not know its member."""
        return self.generation < 0 and not self.member_id and self.instance_id is None
