"""Classic consumer groups: members that share work, generation by generation, and their offsets.

Read `state` for the states, `group` for how a group moves through them, `joining` and `membership`
for what each request means on the way, and `coordinator` for all groups together. `offsets` keeps
how far every group has read. Nothing here knows sockets or the wire format.
"""

from headrace.broker.groups.coordinator import GROUP_TYPE, GroupCoordinator
from headrace.broker.groups.entries import Committed, TopicPartition, UnreadableEntry
from headrace.broker.groups.errors import GroupError, MemberIdRequired
from headrace.broker.groups.messages import (
    Committer,
    Departed,
    Departure,
    GroupDescription,
    Joined,
    JoinedMember,
    JoinRequest,
    MemberDescription,
    MemberProtocol,
    Synced,
    SyncRequest,
)
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.state import GroupState
from headrace.broker.groups.timers import TimerHandle, Timers

__all__ = [
    "GROUP_TYPE",
    "Committed",
    "Committer",
    "Departed",
    "Departure",
    "GroupCoordinator",
    "GroupDescription",
    "GroupError",
    "GroupSettings",
    "GroupState",
    "JoinRequest",
    "Joined",
    "JoinedMember",
    "MemberDescription",
    "MemberIdRequired",
    "MemberProtocol",
    "OffsetStore",
    "SyncRequest",
    "Synced",
    "TimerHandle",
    "Timers",
    "TopicPartition",
    "UnreadableEntry",
]
