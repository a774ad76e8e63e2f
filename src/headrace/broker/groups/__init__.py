"""Groups of members that share work, and how far each group has read.

`registry` has every group, `coordinator` is what requests are made to, `offsets` keeps what was
committed. In a group of the `classic` kind the members share out the work themselves. Nothing here
knows sockets or the wire format.
"""

from headrace.broker.groups.classic.messages import (
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
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.entries import Committed, TopicPartition, UnreadableEntry
from headrace.broker.groups.errors import GroupError, MemberIdRequired
from headrace.broker.groups.messages import Committer, GroupKind, GroupListing
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.timers import TimerHandle, Timers

__all__ = [
    "Committed",
    "Committer",
    "Departed",
    "Departure",
    "GroupCoordinator",
    "GroupDescription",
    "GroupError",
    "GroupKind",
    "GroupListing",
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
