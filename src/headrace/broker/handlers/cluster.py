"""DescribeCluster, DescribeQuorum and DescribeLogDirs: the one node and its disk."""

import os
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.handlers.operations import CLUSTER_OPERATIONS, NOT_ASKED_FOR
from headrace.broker.protocol import Call

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

BROKERS = 1
"""The kind of endpoint that clients ask for; the other is controllers."""

METADATA_TOPIC = "__cluster_metadata"
"""The name under which tools ask for the log of a cluster's metadata."""

FIRST_WITH_NODES = 2
"""The version of DescribeQuorum from which on the reply tells where the nodes are."""


def describe_cluster(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Describe a cluster of one."""
    host, port = call.address
    return call.reply.DescribeClusterResponse(
        error_code=ErrorCode.none,
        endpoint_type=BROKERS,
        cluster_id=core.cluster_id,
        controller_id=core.node_id,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED_FOR,
        brokers=(
            call.reply.DescribeClusterBroker(
                broker_id=core.node_id, host=host, port=port, is_fenced=False
            ),
        ),
    )


def describe_quorum(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Describe who decides about the cluster: the one node, which agrees with itself.

    What Kafka keeps in the topic that tools ask for is the journal of topics here.
    """
    host, port = call.address
    listener = call.reply.Listener if call.version >= FIRST_WITH_NODES else None
    return call.reply.DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message=None,
        topics=tuple(
            call.reply.TopicData(
                topic_name=topic.topic_name,
                partitions=tuple(
                    _quorum(core, topic.topic_name, partition.partition_index, call)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
        nodes=(
            call.reply.Node(
                node_id=core.node_id, listeners=(listener(name="PLAINTEXT", host=host, port=port),)
            ),
        )
        if listener
        else (),
    )


def _quorum(core: "BrokerCore", topic: str, partition: int, call: Call) -> Any:
    known = (topic, partition) == (METADATA_TOPIC, 0)
    entries = core.topics.journal.entry_count
    now_ms = core.clock.now_ms()
    voter = call.reply.ReplicaState(
        replica_id=core.node_id,
        replica_directory_id=None,
        log_end_offset=entries,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return call.reply.PartitionData(
        partition_index=partition,
        error_code=ErrorCode.none if known else ErrorCode.unknown_topic_or_partition,
        error_message=None,
        leader_id=core.node_id if known else 0,
        leader_epoch=1 if known else 0,
        high_watermark=entries if known else 0,
        current_voters=(voter,) if known else (),
        observers=(),
    )


def describe_log_dirs(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Tell how many bytes each partition has on the disk."""
    wanted = (
        None
        if request.topics is None
        else {one.topic: frozenset(one.partitions) for one in request.topics}
    )
    topics = []
    for topic in core.topics:
        if wanted is not None and topic.name not in wanted:
            continue
        topics.append(
            call.reply.DescribeLogDirsTopic(
                name=topic.name,
                partitions=tuple(
                    call.reply.DescribeLogDirsPartition(
                        partition_index=partition.index,
                        partition_size=partition.log.size,
                        offset_lag=0,
                        is_future_key=False,
                    )
                    for partition in topic.partitions
                    if wanted is None or partition.index in wanted[topic.name]
                ),
            )
        )
    disk = os.statvfs(core.settings.data)
    return call.reply.DescribeLogDirsResponse(
        error_code=ErrorCode.none,
        results=(
            call.reply.DescribeLogDirsResult(
                error_code=ErrorCode.none,
                log_dir=str(core.settings.data.resolve()),
                topics=tuple(topics),
                total_bytes=disk.f_blocks * disk.f_frsize,
                usable_bytes=disk.f_bavail * disk.f_frsize,
            ),
        ),
    )
