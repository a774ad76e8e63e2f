"""Every API the broker serves: its key, its versions and where the function is that answers it.

Version ranges are those of `kio`. Produce is advertised from version 0, as Apache Kafka does,
because librdkafka concludes from a higher first version that it must not compress; requests in
versions 0 to 2 are refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.broker import handlers

PRODUCE = 0
"""The API by which records come in."""

API_VERSIONS = 18
"""The API that clients use to ask which versions of the others they may use."""

Handler = Callable[..., Any]
"""Answers a parsed request with a response message, at once or as a coroutine: `(core, request,
call)`. Where parsing and encoding is hot, it answers the bytes of a request with a reply, or the
promise of one: `(core, frame, body, call)`."""


@dataclass(slots=True, eq=False)
class Api:
    """One API of the Kafka protocol.

    The function that answers it has its name, and is imported when it is first asked for or soon
    after the broker has begun to listen (see `later`).
    """

    key: int
    name: str
    first: int
    last: int
    family: str
    """The module of `handlers` that answers it."""
    reads_frame: bool = False
    """Whether its handler takes the bytes of requests."""
    advertised_first: int | None = None
    handler: Handler | None = None
    """Who answers it, once `find_handler` was called."""

    def find_handler(self) -> Handler:
        """Who answers it."""
        handler: Handler = handlers.find(self.family, self.name)
        self.handler = handler
        return handler


_SERVED = (
    Api(PRODUCE, "produce", 3, 13, "produce", reads_frame=True, advertised_first=0),
    Api(1, "fetch", 4, 18, "fetch", reads_frame=True),
    Api(2, "list_offsets", 1, 11, "partitions"),
    Api(3, "metadata", 0, 13, "metadata"),
    Api(8, "offset_commit", 2, 10, "offsets"),
    Api(9, "offset_fetch", 1, 10, "offsets"),
    Api(10, "find_coordinator", 0, 6, "groups"),
    Api(11, "join_group", 0, 9, "groups"),
    Api(12, "heartbeat", 0, 4, "groups"),
    Api(13, "leave_group", 0, 5, "groups"),
    Api(14, "sync_group", 0, 5, "groups"),
    Api(15, "describe_groups", 0, 6, "groups"),
    Api(16, "list_groups", 0, 5, "groups"),
    Api(API_VERSIONS, "api_versions", 0, 4, "versions"),
    Api(19, "create_topics", 2, 7, "topics"),
    Api(20, "delete_topics", 1, 6, "topics"),
    Api(21, "delete_records", 0, 2, "records"),
    Api(22, "init_producer_id", 0, 6, "producers"),
    Api(23, "offset_for_leader_epoch", 2, 4, "partitions"),
    Api(24, "add_partitions_to_txn", 0, 5, "transactions"),
    Api(25, "add_offsets_to_txn", 0, 4, "transactions"),
    Api(26, "end_txn", 0, 5, "transactions"),
    Api(27, "write_txn_markers", 1, 2, "transaction_admin"),
    Api(28, "txn_offset_commit", 0, 5, "transactional_offsets"),
    Api(32, "describe_configs", 1, 4, "configs"),
    Api(33, "alter_configs", 0, 2, "configs"),
    Api(34, "alter_replica_log_dirs", 1, 2, "replicas"),
    Api(35, "describe_log_dirs", 1, 5, "cluster"),
    Api(37, "create_partitions", 0, 3, "topics"),
    Api(42, "delete_groups", 0, 2, "groups"),
    Api(43, "elect_leaders", 0, 2, "replicas"),
    Api(44, "incremental_alter_configs", 0, 1, "configs"),
    Api(45, "alter_partition_reassignments", 0, 1, "replicas"),
    Api(46, "list_partition_reassignments", 0, 0, "replicas"),
    Api(47, "offset_delete", 0, 0, "offsets"),
    Api(48, "describe_client_quotas", 0, 1, "absent"),
    Api(50, "describe_user_scram_credentials", 0, 0, "absent"),
    Api(55, "describe_quorum", 0, 2, "cluster"),
    Api(60, "describe_cluster", 0, 2, "cluster"),
    Api(61, "describe_producers", 0, 0, "producer_states"),
    Api(65, "describe_transactions", 0, 0, "transaction_admin"),
    Api(66, "list_transactions", 0, 2, "transaction_admin"),
    Api(68, "consumer_group_heartbeat", 0, 1, "consumer_groups"),
    Api(69, "consumer_group_describe", 0, 1, "consumer_groups"),
    Api(74, "list_config_resources", 0, 1, "configs"),
    Api(75, "describe_topic_partitions", 0, 0, "metadata"),
)

APIS = {api.key: api for api in _SERVED}
"""The APIs by their keys."""
