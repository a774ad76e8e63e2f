"""The broker's settings under the names that Kafka's tools look for."""

from typing import TYPE_CHECKING

from headrace.broker.groups.configs import GROUP_CONFIG_LIMITS
from headrace.broker.groups.consumer.assignors import ASSIGNORS

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore


def described(core: "BrokerCore") -> dict[str, str]:
    """What the broker would say in a server.properties of Apache Kafka."""
    settings = core.settings
    return {
        "auto.create.topics.enable": str(settings.auto_create_topics).lower(),
        "broker.id": str(core.node_id),
        "connections.max.idle.ms": str(settings.idle_connection_ms),
        "default.replication.factor": "1",
        "flush": settings.flush,
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.assignors": ",".join(ASSIGNORS),
        "group.consumer.heartbeat.interval.ms": str(settings.group_consumer_heartbeat_interval_ms),
        "group.consumer.max.size": str(settings.group_consumer_max_size or 2**31 - 1),
        "group.consumer.migration.policy": "disabled",
        "group.consumer.session.timeout.ms": str(settings.group_consumer_session_timeout_ms),
        **GROUP_CONFIG_LIMITS,
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.initial.rebalance.delay.ms": str(settings.group_initial_rebalance_delay_ms),
        "group.max.session.timeout.ms": str(settings.group_max_session_timeout_ms),
        "group.min.session.timeout.ms": str(settings.group_min_session_timeout_ms),
        "log.cleaner.backoff.ms": str(settings.compaction_check_ms),
        "log.cleaner.dedupe.buffer.size": str(settings.compaction_memory),
        "log.cleaner.enable": "true",
        "log.dirs": str(settings.data.absolute()),
        "log.flush.interval.ms": str(settings.flush_interval_ms),
        "log.retention.bytes": str(settings.retention_bytes),
        "log.retention.check.interval.ms": str(settings.retention_check_ms),
        "log.retention.ms": str(settings.retention_ms),
        "log.roll.ms": str(settings.segment_age_ms),
        "log.segment.bytes": str(settings.segment_bytes),
        "message.max.bytes": str(settings.max_message_bytes),
        "node.id": str(core.node_id),
        "num.partitions": str(settings.partitions),
        "offsets.retention.minutes": str(settings.offsets_retention_ms // 60_000),
        "remote.log.storage.system.enable": str(core.archive is not None).lower(),
        "socket.request.max.bytes": str(settings.max_request_bytes),
        "transaction.max.timeout.ms": str(settings.transaction_max_timeout_ms),
        "transactional.id.expiration.ms": str(settings.transactional_id_expiration_ms),
    }
