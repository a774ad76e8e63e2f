"""The configuration of a topic: which keys there are, what they may be, what they default to.

Names and meanings are Apache Kafka's, with one addition: `flush`, the durability policy. Keys that
Kafka has and that mean nothing on a single node are accepted and shown, so that tools work.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from headrace.errors import HeadraceError
from headrace.log import CompactionPolicy, Flush, LogSettings
from headrace.settings import BrokerSettings

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

LOCAL_AS_WHOLE = -2
"""A local retention that is the same as the topic's."""

_CODECS = ("gzip", "snappy", "lz4", "zstd")


class InvalidConfig(HeadraceError):
    """A topic configuration that is unknown or has an impossible value."""


class ConfigType(IntEnum):
    """A value's type, as DescribeConfigs tells it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One configuration key of a topic."""

    name: str
    type: ConfigType
    default: Callable[[BrokerSettings], object]
    check: Callable[[str], bool]
    expects: str
    documentation: str


def _whole(low: int, high: int) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            return low <= int(value) <= high
        except ValueError:
            return False

    return check


def _fraction(value: str) -> bool:
    try:
        return 0.0 <= float(value) <= 1.0
    except ValueError:
        return False


def _one_of(*words: str) -> Callable[[str], bool]:
    return lambda value: value in words


def _anything(_: str) -> bool:
    return True


def _policies(value: str) -> bool:
    policies = [policy.strip() for policy in value.split(",")]
    return bool(policies) and all(policy in ("delete", "compact") for policy in policies)


def _integer(
    name: str,
    default: Callable[[BrokerSettings], object],
    low: int,
    documentation: str,
    *,
    long: bool = True,
) -> ConfigKey:
    high = LONG_MAX if long else INT_MAX
    kind = ConfigType.LONG if long else ConfigType.INT
    expects = f"a whole number of at least {low}"
    return ConfigKey(name, kind, default, _whole(low, high), expects, documentation)


def _fixed(name: str, kind: ConfigType, value: str, why: str) -> ConfigKey:
    """A key that is shown, but can only be what it is."""
    return ConfigKey(name, kind, lambda _: value, _one_of(value), f"{value}: {why}", why)


def _switch(name: str, documentation: str) -> ConfigKey:
    return ConfigKey(
        name,
        ConfigType.BOOLEAN,
        lambda _: "false",
        _one_of("true", "false"),
        "true or false",
        documentation,
    )


_KEYS = (
    ConfigKey(
        "cleanup.policy",
        ConfigType.LIST,
        lambda _: "delete",
        _policies,
        "delete, compact, or both",
        "Whether old segments are deleted, or the latest value of each key is kept.",
    ),
    ConfigKey(
        "compression.type",
        ConfigType.STRING,
        lambda _: "producer",
        _one_of("producer", "uncompressed", *_CODECS),
        f"producer, uncompressed, {', '.join(_CODECS)}",
        "The compression that is wished for; batches are stored as producers compressed them.",
    ),
    _integer(
        "delete.retention.ms", lambda _: DAY_MS, 0, "How long tombstones of a compacted topic stay."
    ),
    ConfigKey(
        "flush",
        ConfigType.STRING,
        lambda settings: settings.flush,
        _one_of(*Flush),
        "ack, interval or os",
        "When acks=all is answered: after fsync (ack), or after the write, with an fsync at "
        "intervals (interval) or whenever the system likes (os).",
    ),
    _integer(
        "index.interval.bytes", lambda _: 4096, 0, "Bytes between entries of the index.", long=False
    ),
    _integer(
        "max.compaction.lag.ms", lambda _: LONG_MAX, 1, "Longest time a record stays uncompacted."
    ),
    _integer(
        "max.message.bytes",
        lambda settings: settings.max_message_bytes,
        0,
        "Largest record batch accepted.",
        long=False,
    ),
    _integer(
        "message.timestamp.after.max.ms",
        lambda _: HOUR_MS,
        0,
        "How far in the future a record's timestamp may lie.",
    ),
    ConfigKey(
        "message.timestamp.type",
        ConfigType.STRING,
        lambda _: "CreateTime",
        _one_of("CreateTime", "LogAppendTime"),
        "CreateTime or LogAppendTime",
        "Whether timestamps are the producer's or the broker's.",
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        ConfigType.DOUBLE,
        lambda _: "0.5",
        _fraction,
        "a number from 0 to 1",
        "Share of uncompacted bytes at which a compacted topic is cleaned.",
    ),
    _integer("min.compaction.lag.ms", lambda _: 0, 0, "Shortest time a record stays uncompacted."),
    _integer(
        "min.insync.replicas",
        lambda _: 1,
        1,
        "Replicas that must have a batch for acks=all; there is one.",
        long=False,
    ),
    _integer(
        "retention.bytes",
        lambda settings: settings.retention_bytes,
        -1,
        "Size of a partition beyond which old segments go; -1: no limit.",
    ),
    _integer(
        "retention.ms",
        lambda settings: settings.retention_ms,
        -1,
        "Age beyond which segments go; -1: never.",
    ),
    _integer(
        "segment.bytes",
        lambda settings: settings.segment_bytes,
        1024,
        "Size at which a segment is rolled.",
        long=False,
    ),
    _integer(
        "segment.ms", lambda settings: settings.segment_age_ms, 1, "Age at which one is rolled."
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        ConfigType.BOOLEAN,
        lambda _: "false",
        _one_of("true", "false"),
        "true or false",
        "Without effect: there is one replica, which always leads.",
    ),
)

# Kafka's other keys. Tools that copy a topic's whole configuration, or describe it in full, name
# them all; those that would promise something that does not happen are held to their defaults.
_OTHER_KEYS = (
    ConfigKey(
        "compression.gzip.level",
        ConfigType.INT,
        lambda _: -1,
        lambda value: value == "-1" or _whole(1, 9)(value),
        "-1, or a whole number from 1 to 9",
        "Without effect: batches are stored as producers compressed them.",
    ),
    ConfigKey(
        "compression.lz4.level",
        ConfigType.INT,
        lambda _: 9,
        _whole(1, 17),
        "a whole number from 1 to 17",
        "Without effect: batches are stored as producers compressed them.",
    ),
    ConfigKey(
        "compression.zstd.level",
        ConfigType.INT,
        lambda _: 3,
        _whole(-131072, 22),
        "a whole number from -131072 to 22",
        "Without effect: batches are stored as producers compressed them.",
    ),
    _integer(
        "file.delete.delay.ms", lambda _: 60_000, 0, "Without effect: files that went are removed."
    ),
    _integer("flush.messages", lambda _: LONG_MAX, 1, "Without effect: durability is flush's job."),
    _integer("flush.ms", lambda _: LONG_MAX, 0, "Without effect: durability is flush's job."),
    ConfigKey(
        "follower.replication.throttled.replicas",
        ConfigType.LIST,
        lambda _: "",
        _anything,
        "a list of replicas",
        "Without effect: nothing is replicated.",
    ),
    ConfigKey(
        "leader.replication.throttled.replicas",
        ConfigType.LIST,
        lambda _: "",
        _anything,
        "a list of replicas",
        "Without effect: nothing is replicated.",
    ),
    _integer(
        "local.retention.bytes",
        lambda _: -2,
        -2,
        "Like retention.bytes, for what is on the local disk of an archived topic; -2: the same.",
    ),
    _integer(
        "local.retention.ms",
        lambda _: -2,
        -2,
        "Like retention.ms, for what is on the local disk of an archived topic; -2: the same.",
    ),
    _fixed(
        "message.timestamp.before.max.ms",
        ConfigType.LONG,
        str(LONG_MAX),
        "a record may be as old as it likes",
    ),
    ConfigKey(
        "preallocate",
        ConfigType.BOOLEAN,
        lambda _: "false",
        _one_of("true", "false"),
        "true or false",
        "Without effect: segments grow as they are written.",
    ),
    _switch("remote.log.copy.disable", "Whether an archived topic's archive grows no more."),
    _switch(
        "remote.log.delete.on.disable",
        "Whether setting remote.storage.enable to false deletes what the archive has.",
    ),
    _switch(
        "remote.storage.enable",
        "Whether sealed segments are kept in the broker's archive; local.retention.* then tells "
        "how long they also stay on the local disk.",
    ),
    _integer(
        "segment.index.bytes",
        lambda _: 10 << 20,
        4,
        "Without effect: an index is as large as its segment needs.",
        long=False,
    ),
    _integer("segment.jitter.ms", lambda _: 0, 0, "Without effect: segments roll when due."),
)

TOPIC_CONFIGS = {key.name: key for key in sorted((*_KEYS, *_OTHER_KEYS), key=lambda key: key.name)}
"""The keys by their names."""


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The configuration, if every key is known and every value possible."""
    checked = {}
    for name, value in configs.items():
        key = TOPIC_CONFIGS.get(name)
        if key is None:
            raise InvalidConfig(f"Unknown topic config name: {name}")
        if value is None or not key.check(value):
            raise InvalidConfig(
                f"Invalid value {value} for configuration {name}: expected {key.expects}"
            )
        checked[name] = value
    return checked


def effective(configs: Mapping[str, str], settings: BrokerSettings) -> dict[str, str]:
    """Every key with its value: the topic's own, or the broker's default."""
    return {
        name: configs.get(name, str(key.default(settings))) for name, key in TOPIC_CONFIGS.items()
    }


def log_settings(values: Mapping[str, str]) -> LogSettings:
    """How the log of a topic with these effective values behaves."""
    policies = {policy.strip() for policy in values["cleanup.policy"].split(",")}
    segment_ms = int(values["segment.ms"])
    compaction = None
    if "compact" in policies:
        compaction = CompactionPolicy(
            min_dirty_ratio=float(values["min.cleanable.dirty.ratio"]),
            min_lag_ms=int(values["min.compaction.lag.ms"]),
            max_lag_ms=int(values["max.compaction.lag.ms"]),
            delete_retention_ms=int(values["delete.retention.ms"]),
        )
        # What is in the active segment cannot be compacted, however long it waits there.
        segment_ms = min(segment_ms, compaction.max_lag_ms)
    return LogSettings(
        segment_bytes=int(values["segment.bytes"]),
        segment_ms=segment_ms,
        retention_bytes=int(values["retention.bytes"]),
        retention_ms=int(values["retention.ms"]),
        local_retention_bytes=_local(values, "retention.bytes"),
        local_retention_ms=_local(values, "retention.ms"),
        index_interval_bytes=int(values["index.interval.bytes"]),
        flush=Flush(values["flush"]),
        delete="delete" in policies,
        compaction=compaction,
    )


def _local(values: Mapping[str, str], name: str) -> int:
    """A retention as it holds for the local disk: the topic's own, unless another is set."""
    local = int(values[f"local.{name}"])
    return int(values[name]) if local == LOCAL_AS_WHOLE else local
