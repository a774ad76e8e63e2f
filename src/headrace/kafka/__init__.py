"""What Headrace needs from any cluster that speaks the Kafka protocol, its own or Apache's.

`cluster` turns settings into clients and their errors into ours; `positions` finds offsets and
`reader` reads from them without a group; `topics`, `topic_config`, `groups`, `group_detail`,
`group_reset` and `group_copy` are the administration, one matter each. `lag` measures how far
groups are behind. What measures all the time is imported from its own modules, so that others need
not load a database and an HTTP client: `lag_monitor`, `lag_history`, `lag_alerts`, `lag_delivery`.
Nothing here knows the broker: all goes through the protocol.
`connection` sends raw requests, for those who move records in bulk; `messages`, `wire`, `security`
and `sasl` are what it is made of. `raw_fetch` and `raw_positions` are how they read.
`private`, `excision` and `archive_state` are what only Headrace's broker can be asked, over the
same connection.
"""

from headrace.kafka.archive_state import ArchiveState, archive_state
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import CommittedOffsets
from headrace.kafka.errors import (
    ClusterError,
    ClusterSilent,
    ClusterUnreachable,
    GroupActive,
    GroupInUse,
    InvalidClientProperties,
    RequestRefused,
    TopicExists,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
    UnknownTopicConfig,
)
from headrace.kafka.excision import (
    ExcisionLost,
    ExcisionProgress,
    ExcisionRefused,
    follow_excision,
    start_excision,
)
from headrace.kafka.group_copy import CannotCopy, OffsetCopy, apply_copy, plan_copy
from headrace.kafka.group_detail import GroupDetail, GroupMember, GroupProgress, describe_group
from headrace.kafka.group_reset import OffsetMove, ShiftBy, apply_reset, plan_reset
from headrace.kafka.groups import (
    GroupSummary,
    committed_offsets,
    delete_group,
    has_members,
    list_groups,
)
from headrace.kafka.lag import GroupLag, LagMeter, LagSample, PartitionLag, isolation_by
from headrace.kafka.lag_delivery import Delivery
from headrace.kafka.lag_source import ClusterLagSource
from headrace.kafka.positions import (
    AtOffset,
    AtTime,
    BeforeEnd,
    Earliest,
    Isolation,
    Latest,
    OffsetRange,
    Partition,
    Position,
    find_offsets,
    offset_ranges,
    parse_position,
)
from headrace.kafka.private import NotHeadrace, OperationRefused
from headrace.kafka.reader import OffsetGone, Reader
from headrace.kafka.topic_config import (
    ConfigOrigin,
    ConfigValue,
    change_topic_config,
    topic_config,
)
from headrace.kafka.topics import (
    PartitionDetail,
    TopicDetail,
    TopicSummary,
    add_partitions,
    create_topic,
    delete_topic,
    describe_topic,
    ensure_topic,
    list_topics,
    partitions_of,
)

__all__ = [
    "ArchiveState",
    "AtOffset",
    "AtTime",
    "BeforeEnd",
    "CannotCopy",
    "Cluster",
    "ClusterError",
    "ClusterLagSource",
    "ClusterSilent",
    "ClusterUnreachable",
    "CommittedOffsets",
    "ConfigOrigin",
    "ConfigValue",
    "Delivery",
    "Earliest",
    "ExcisionLost",
    "ExcisionProgress",
    "ExcisionRefused",
    "GroupActive",
    "GroupDetail",
    "GroupInUse",
    "GroupLag",
    "GroupMember",
    "GroupProgress",
    "GroupSummary",
    "InvalidClientProperties",
    "Isolation",
    "LagMeter",
    "LagSample",
    "Latest",
    "NotHeadrace",
    "OffsetCopy",
    "OffsetGone",
    "OffsetMove",
    "OffsetRange",
    "OperationRefused",
    "Partition",
    "PartitionDetail",
    "PartitionLag",
    "Position",
    "Reader",
    "RequestRefused",
    "ShiftBy",
    "TopicDetail",
    "TopicExists",
    "TopicSummary",
    "UnknownGroup",
    "UnknownPartition",
    "UnknownTopic",
    "UnknownTopicConfig",
    "add_partitions",
    "apply_copy",
    "apply_reset",
    "archive_state",
    "change_topic_config",
    "committed_offsets",
    "create_topic",
    "delete_group",
    "delete_topic",
    "describe_group",
    "describe_topic",
    "ensure_topic",
    "find_offsets",
    "follow_excision",
    "has_members",
    "isolation_by",
    "list_groups",
    "list_topics",
    "offset_ranges",
    "parse_position",
    "partitions_of",
    "plan_copy",
    "plan_reset",
    "start_excision",
    "topic_config",
]
