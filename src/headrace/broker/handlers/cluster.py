"""DescribeCluster and DescribeLogDirs: the one node and its disk."""

import os
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.handlers.operations import CLUSTER_OPERATIONS, NOT_ASKED_FOR
from headrace.broker.protocol import Call

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

BROKERS = 1
"""The kind of endpoint that clients ask for; the other is controllers."""


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
