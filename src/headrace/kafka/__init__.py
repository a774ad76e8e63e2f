"""What Headrace needs from any cluster that speaks the Kafka protocol, its own or Apache's.

`cluster` turns settings into clients and their errors into ours; `positions` finds offsets and
`reader` reads from them without a group; `topics`, `topic_config`, `groups` and `group_reset` are
the administration, one matter each. Nothing here knows the broker: all goes through the protocol.
"""

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import (
    ClusterError,
    ClusterSilent,
    ClusterUnreachable,
    GroupActive,
    InvalidClientProperties,
    RequestRefused,
    TopicExists,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)
from headrace.kafka.group_reset import OffsetMove, ShiftBy, apply_reset, plan_reset
from headrace.kafka.groups import (
    GroupDetail,
    GroupMember,
    GroupProgress,
    GroupSummary,
    committed_offsets,
    describe_group,
    has_members,
    list_groups,
)
from headrace.kafka.positions import (
    AtOffset,
    AtTime,
    BeforeEnd,
    Earliest,
    Latest,
    OffsetRange,
    Partition,
    Position,
    find_offsets,
    offset_ranges,
    parse_position,
)
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
    "AtOffset",
    "AtTime",
    "BeforeEnd",
    "Cluster",
    "ClusterError",
    "ClusterSilent",
    "ClusterUnreachable",
    "ConfigOrigin",
    "ConfigValue",
    "Earliest",
    "GroupActive",
    "GroupDetail",
    "GroupMember",
    "GroupProgress",
    "GroupSummary",
    "InvalidClientProperties",
    "Latest",
    "OffsetGone",
    "OffsetMove",
    "OffsetRange",
    "Partition",
    "PartitionDetail",
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
    "add_partitions",
    "apply_reset",
    "change_topic_config",
    "committed_offsets",
    "create_topic",
    "delete_topic",
    "describe_group",
    "describe_topic",
    "ensure_topic",
    "find_offsets",
    "has_members",
    "list_groups",
    "list_topics",
    "offset_ranges",
    "parse_position",
    "partitions_of",
    "plan_reset",
    "topic_config",
]
