"""Every API the broker serves: its key, its versions and the function that answers it.

Version ranges are those of `kio`. Produce is advertised from version 0, as Apache Kafka does,
because librdkafka concludes from a higher first version that it must not compress; requests in
versions 0 to 2 are refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.broker.handlers import (
    absent,
    cluster,
    configs,
    consumer_groups,
    fetch,
    groups,
    metadata,
    offsets,
    partitions,
    produce,
    producer_states,
    producers,
    records,
    replicas,
    topics,
    transaction_admin,
    transactional_offsets,
    transactions,
    versions,
)
from headrace.broker.protocol import Call
from headrace.broker.reply import Pending, Reply

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

PRODUCE = 0
"""The API by which records come in."""

API_VERSIONS = 18
"""The API that clients use to ask which versions of the others they may use."""

Answer = Callable[["BrokerCore", Any, Call], Any]
"""Answers a parsed request with a response message, at once or as a coroutine."""

AnswerFrame = Callable[["BrokerCore", memoryview, int, Call], Reply | Pending | None]
"""Answers the bytes of a request; for the two APIs where parsing and encoding is hot."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API of the Kafka protocol."""

    key: int
    name: str
    first: int
    last: int
    answer: Answer | None = None
    answer_frame: AnswerFrame | None = None
    advertised_first: int | None = None


_SERVED = (
    Api(PRODUCE, "produce", 3, 13, answer_frame=produce.answer, advertised_first=0),
    Api(1, "fetch", 4, 18, answer_frame=fetch.answer),
    Api(2, "list_offsets", 1, 11, partitions.list_offsets),
    Api(3, "metadata", 0, 13, metadata.metadata),
    Api(8, "offset_commit", 2, 10, offsets.offset_commit),
    Api(9, "offset_fetch", 1, 10, offsets.offset_fetch),
    Api(10, "find_coordinator", 0, 6, groups.find_coordinator),
    Api(11, "join_group", 0, 9, groups.join_group),
    Api(12, "heartbeat", 0, 4, groups.heartbeat),
    Api(13, "leave_group", 0, 5, groups.leave_group),
    Api(14, "sync_group", 0, 5, groups.sync_group),
    Api(15, "describe_groups", 0, 6, groups.describe_groups),
    Api(16, "list_groups", 0, 5, groups.list_groups),
    Api(API_VERSIONS, "api_versions", 0, 4, versions.api_versions),
    Api(19, "create_topics", 2, 7, topics.create_topics),
    Api(20, "delete_topics", 1, 6, topics.delete_topics),
    Api(21, "delete_records", 0, 2, records.delete_records),
    Api(22, "init_producer_id", 0, 6, producers.init_producer_id),
    Api(23, "offset_for_leader_epoch", 2, 4, partitions.offset_for_leader_epoch),
    Api(24, "add_partitions_to_txn", 0, 5, transactions.add_partitions_to_txn),
    Api(25, "add_offsets_to_txn", 0, 4, transactions.add_offsets_to_txn),
    Api(26, "end_txn", 0, 5, transactions.end_txn),
    Api(27, "write_txn_markers", 1, 2, transaction_admin.write_txn_markers),
    Api(28, "txn_offset_commit", 0, 5, transactional_offsets.txn_offset_commit),
    Api(32, "describe_configs", 1, 4, configs.describe_configs),
    Api(33, "alter_configs", 0, 2, configs.alter_configs),
    Api(34, "alter_replica_log_dirs", 1, 2, replicas.alter_replica_log_dirs),
    Api(35, "describe_log_dirs", 1, 5, cluster.describe_log_dirs),
    Api(37, "create_partitions", 0, 3, topics.create_partitions),
    Api(42, "delete_groups", 0, 2, groups.delete_groups),
    Api(43, "elect_leaders", 0, 2, replicas.elect_leaders),
    Api(44, "incremental_alter_configs", 0, 1, configs.incremental_alter_configs),
    Api(45, "alter_partition_reassignments", 0, 1, replicas.alter_partition_reassignments),
    Api(46, "list_partition_reassignments", 0, 0, replicas.list_partition_reassignments),
    Api(47, "offset_delete", 0, 0, offsets.offset_delete),
    Api(48, "describe_client_quotas", 0, 1, absent.describe_client_quotas),
    Api(50, "describe_user_scram_credentials", 0, 0, absent.describe_user_scram_credentials),
    Api(55, "describe_quorum", 0, 2, cluster.describe_quorum),
    Api(60, "describe_cluster", 0, 2, cluster.describe_cluster),
    Api(61, "describe_producers", 0, 0, producer_states.describe_producers),
    Api(65, "describe_transactions", 0, 0, transaction_admin.describe_transactions),
    Api(66, "list_transactions", 0, 2, transaction_admin.list_transactions),
    Api(68, "consumer_group_heartbeat", 0, 1, consumer_groups.consumer_group_heartbeat),
    Api(69, "consumer_group_describe", 0, 1, consumer_groups.consumer_group_describe),
    Api(74, "list_config_resources", 0, 1, configs.list_config_resources),
    Api(75, "describe_topic_partitions", 0, 0, metadata.describe_topic_partitions),
)

APIS = {api.key: api for api in _SERVED}
"""The APIs by their keys."""
