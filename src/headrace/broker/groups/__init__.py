"""Groups of members that share work, and how far each group has read.

`registry` has every group, `coordinator` is what requests are made to, `offsets` keeps what was
committed. In a group of the `classic` kind the members share out the work themselves; in one of the
`consumer` kind the coordinator does. Nothing here knows sockets or the wire format.
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
from headrace.broker.groups.configs import GROUP_CONFIGS, GroupConfigs, InvalidGroupConfig
from headrace.broker.groups.consumer.assignors import ASSIGNORS
from headrace.broker.groups.consumer.messages import (
    ConsumerGroupDescription,
    ConsumerGroupState,
    ConsumerMemberDescription,
    Heartbeat,
    HeartbeatAnswer,
)
from headrace.broker.groups.consumer.partitions import PartitionId, Share, by_topic
from headrace.broker.groups.consumer.topics import KnownTopic, KnownTopics
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.entries import Committed, TopicPartition, UnreadableEntry
from headrace.broker.groups.errors import GroupError, MemberIdRequired
from headrace.broker.groups.messages import Committer, GroupKind, GroupListing
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.settings import ConsumerTimes, GroupSettings
from headrace.broker.groups.timers import TimerHandle, Timers

__all__ = [
    "ASSIGNORS",
    "GROUP_CONFIGS",
    "Committed",
    "Committer",
    "ConsumerGroupDescription",
    "ConsumerGroupState",
    "ConsumerMemberDescription",
    "ConsumerTimes",
    "Departed",
    "Departure",
    "GroupConfigs",
    "GroupCoordinator",
    "GroupDescription",
    "GroupError",
    "GroupKind",
    "GroupListing",
    "GroupSettings",
    "GroupState",
    "Heartbeat",
    "HeartbeatAnswer",
    "InvalidGroupConfig",
    "JoinRequest",
    "Joined",
    "JoinedMember",
    "KnownTopic",
    "KnownTopics",
    "MemberDescription",
    "MemberIdRequired",
    "MemberProtocol",
    "OffsetStore",
    "PartitionId",
    "Share",
    "SyncRequest",
    "Synced",
    "TimerHandle",
    "Timers",
    "TopicPartition",
    "UnreadableEntry",
    "by_topic",
]
