"""Requests about replicas and their leaders, where every partition has one replica that leads it.

Tools that look after clusters ask these questions of any cluster; here there is nothing to move
and nobody to elect, and the answers say so.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.protocol import Call, get

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

PREFERRED, UNCLEAN = range(2)
"""Kinds of elections."""


def elect_leaders(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Tell of each partition asked for that its leader stays; none asked for means all."""
    kind = get(request, "election_type", PREFERRED)
    known = kind in (PREFERRED, UNCLEAN)
    if request.topic_partitions is None:
        wanted: list[tuple[str, Sequence[int]]] = [(topic.name, ()) for topic in core.topics]
    else:
        wanted = [(one.topic, one.partitions) for one in request.topic_partitions]
    return call.reply.ElectLeadersResponse(
        error_code=ErrorCode.none if known else ErrorCode.invalid_request,
        replica_election_results=tuple(
            call.reply.ReplicaElectionResult(
                topic=name,
                partition_result=tuple(
                    _elected(core, name, index, call)
                    if known
                    else call.reply.PartitionResult(
                        partition_id=index,
                        error_code=ErrorCode.invalid_request,
                        error_message=f"Unknown election type {kind}",
                    )
                    for index in indexes
                ),
            )
            for name, indexes in wanted
        ),
    )


def _elected(core: "BrokerCore", name: str, index: int, call: Call) -> Any:
    code, message = ErrorCode.election_not_needed, "The one replica leads already."
    if core.partition(name, index) is None:
        code, message = ErrorCode.unknown_topic_or_partition, f"No such partition as {name}-{index}"
    return call.reply.PartitionResult(partition_id=index, error_code=code, error_message=message)


def alter_partition_reassignments(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Accept to leave partitions where they are; refuse to move them anywhere else."""
    return call.reply.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=get(request, "allow_replication_factor_change", True),
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(
            call.reply.ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _reassigned(core, topic.name, partition, call) for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _reassigned(core: "BrokerCore", name: str, wanted: Any, call: Call) -> Any:
    code, message = ErrorCode.none, None
    if core.partition(name, wanted.partition_index) is None:
        code = ErrorCode.unknown_topic_or_partition
        message = f"Unable to find partition {name}-{wanted.partition_index}."
    elif wanted.replicas is None:
        code = ErrorCode.no_reassignment_in_progress
    elif wanted.replicas != (core.node_id,):
        code = ErrorCode.invalid_replica_assignment
        message = f"Every partition must be assigned to broker {core.node_id}, the only one."
    return call.reply.ReassignablePartitionResponse(
        partition_index=wanted.partition_index, error_code=code, error_message=message
    )


def list_partition_reassignments(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Tell that no partition is on the move."""
    return call.reply.ListPartitionReassignmentsResponse(
        error_code=ErrorCode.none, error_message=None, topics=()
    )


def alter_replica_log_dirs(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Accept to leave partitions in the one data directory there is."""
    return call.reply.AlterReplicaLogDirsResponse(
        results=tuple(
            call.reply.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=tuple(
                    call.reply.AlterReplicaLogDirPartitionResult(
                        partition_index=index,
                        error_code=_placed(core, wanted.path, topic.name, index),
                    )
                    for index in topic.partitions
                ),
            )
            for wanted in request.dirs
            for topic in wanted.topics
        )
    )


def _placed(core: "BrokerCore", path: str, name: str, index: int) -> ErrorCode:
    if path != str(core.settings.data.resolve()):
        return ErrorCode.log_dir_not_found
    if core.partition(name, index) is None:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.none
