"""The [broker] section: how a Headrace broker listens, stores and serves."""

from dataclasses import dataclass
from pathlib import Path

from headrace.settings.address import Address
from headrace.settings.errors import InvalidSetting
from headrace.settings.kinds import Choice, Duration, Location, Maybe, Size, Switch, Text, Whole
from headrace.settings.sections import Section, setting

LOG_LEVELS = ("debug", "info", "warning", "error")
"""How much a process says about itself, most first."""

FLUSH_POLICIES = ("ack", "interval", "os")
"""When an append is on the disk: before its acknowledgement, soon after, or some time later."""


@dataclass(frozen=True, slots=True)
class BrokerSettings(Section):
    """Everything a broker can be told; durations are milliseconds, sizes are bytes.

    >>> BrokerSettings(listen="127.0.0.1:0", flush="os").segment_bytes
    1073741824
    """

    listen: str = setting(Address(), "127.0.0.1:9092", "Address to listen on; port 0 picks one.")
    advertise: str | None = setting(
        Maybe(Address()), None, "Address that clients are told to connect to, if not `listen`."
    )
    data: Path = setting(  # noqa: RUF009 - it is a field, whatever its annotation
        Location(), "headrace-data", "Directory that holds everything stored."
    )
    metrics: str | None = setting(
        Maybe(Address()), None, "Address of the metrics and health endpoint; none if not set."
    )
    log_level: str = setting(Choice(LOG_LEVELS), "info", "How much the broker logs.")

    flush: str = setting(
        Choice(FLUSH_POLICIES), "ack", "When acknowledged data is fsynced: ack, interval or os."
    )
    flush_interval_ms: int = setting(
        Duration(minimum=1), "1s", 'Time between fsyncs when flush = "interval".'
    )

    auto_create_topics: bool = setting(
        Switch(), True, "Whether a topic appears when a client first asks for it."
    )
    partitions: int = setting(
        Whole(minimum=1, maximum=100_000), 1, "Partitions of a topic created without a number."
    )
    max_message_bytes: int = setting(
        Size(minimum=1 << 10, maximum=(1 << 31) - 1), 1_048_588, "Largest record batch accepted."
    )
    segment_bytes: int = setting(
        Size(minimum=1 << 10, maximum=(1 << 31) - 1), "1 GiB", "Size at which a segment is rolled."
    )
    segment_age_ms: int = setting(
        Duration(minimum=1), "7 days", "Age at which a segment is rolled."
    )
    retention_bytes: int = setting(
        Size(unlimited=True), -1, "Size per partition beyond which old segments go; -1: no limit."
    )
    retention_ms: int = setting(
        Duration(unlimited=True), "7 days", 'Age beyond which segments go; "unlimited": never.'
    )
    retention_check_ms: int = setting(
        Duration(minimum=1), "5 minutes", "Time between rounds of housekeeping."
    )
    compaction_check_ms: int = setting(
        Duration(minimum=1), "15s", "Time between looks for topics to compact."
    )
    compaction_memory: int = setting(
        Size(minimum=1 << 20), "128 MiB", "Memory for the keys of the topic being compacted."
    )
    compaction_rate: int = setting(
        Size(unlimited=True), -1, "Bytes a second that compaction moves at most; -1: no limit."
    )
    compaction_floor: int = setting(
        Size(minimum=1 << 20),
        "16 MiB",
        "Bytes a second below which compaction stops giving way to others.",
    )

    scrub_interval_ms: int = setting(
        Duration(minimum=1, unlimited=True),
        "1 day",
        'Time between rounds of reading all stored segments for damage; "unlimited": none.',
    )
    scrub_rate: int = setting(
        Size(minimum=1 << 10), "16 MiB", "Bytes a second that such a round reads at most."
    )

    archive: str | None = setting(
        Maybe(Text()), None, "Where archived segments go: a directory, or a URL of a store."
    )
    archive_interval_ms: int = setting(
        Duration(minimum=1), "10s", "Time between rounds of archiving."
    )
    archive_parallel: int = setting(
        Whole(minimum=1, maximum=64), 4, "Segments moved to, and from, the archive at a time."
    )
    archive_rate: int = setting(
        Size(unlimited=True),
        "64 MiB",
        "Bytes a second that go to the archive at most, so that producers go on; -1: no limit.",
    )
    archive_floor: int = setting(
        Size(minimum=1 << 20),
        "16 MiB",
        "Bytes a second that archiving keeps beside busy producers.",
    )
    archive_cache: int = setting(
        Size(), "4 GiB", "Local disk space for archived segments that somebody reads."
    )

    max_request_bytes: int = setting(
        Size(minimum=1 << 10, maximum=(1 << 31) - 1), "100 MiB", "Largest request accepted."
    )
    request_memory: int = setting(
        Size(minimum=1 << 10), "256 MiB", "Memory for requests in flight, all connections together."
    )
    max_connections: int = setting(Whole(minimum=1), 10_000, "Connections accepted at a time.")
    idle_connection_ms: int = setting(
        Duration(minimum=1), "10 minutes", "Silence after which a connection is closed."
    )

    group_initial_rebalance_delay_ms: int = setting(
        Duration(), "0s", "How long a new consumer group waits for more members."
    )
    group_min_session_timeout_ms: int = setting(
        Duration(minimum=1), "6s", "Shortest session timeout a group member may ask for."
    )
    group_max_session_timeout_ms: int = setting(
        Duration(minimum=1), "30 minutes", "Longest session timeout a group member may ask for."
    )
    group_consumer_session_timeout_ms: int = setting(
        Duration(minimum=1_000, maximum=1_800_000),
        "45s",
        "Silence after which a member of a group with `group.protocol=consumer` is dropped.",
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        Duration(minimum=100, maximum=60_000),
        "5s",
        "How often members of such a group are asked to call.",
    )
    group_consumer_max_size: int | None = setting(
        Maybe(Whole(minimum=1)), None, "Members that such a group may have; any number if not set."
    )
    offsets_retention_ms: int = setting(
        Duration(minimum=1), "7 days", "How long an empty group's offsets are kept."
    )

    transaction_max_timeout_ms: int = setting(
        Duration(minimum=1), "15 minutes", "Longest transaction timeout a producer may ask for."
    )
    transactional_id_expiration_ms: int = setting(
        Duration(minimum=1), "7 days", "How long an unused transactional id is remembered."
    )

    def __post_init__(self) -> None:
        # A bare super() does not survive slots=True, which builds the class anew.
        Section.__post_init__(self)
        _require_order(self, "group_min_session_timeout_ms", "group_max_session_timeout_ms")
        _require_order(
            self, "group_consumer_heartbeat_interval_ms", "group_consumer_session_timeout_ms"
        )
        _require_order(self, "max_message_bytes", "max_request_bytes")
        _require_order(self, "max_request_bytes", "request_memory")


def _require_order(settings: BrokerSettings, smaller: str, larger: str) -> None:
    if getattr(settings, smaller) > getattr(settings, larger):
        raise InvalidSetting(
            f"[broker] {smaller.removesuffix('_ms')} is larger than {larger.removesuffix('_ms')}; "
            "lower the first or raise the second."
        )
