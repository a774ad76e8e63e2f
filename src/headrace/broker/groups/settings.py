"""What an operator may decide about consumer groups."""

from dataclasses import dataclass

DAY_MS = 24 * 60 * 60 * 1000
"""A day in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTimes:
    """The timeouts of a consumer group, which in this kind of group the broker decides about."""

    session_timeout_ms: int = 45_000
    """How long a member may be silent."""
    heartbeat_interval_ms: int = 5_000
    """How often members are asked to call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Limits and delays of the group coordinator; the defaults are Kafka's, with one exception.

    The exception is the initial rebalance delay, which is 0 here and 3 s in Kafka: a group of one
    consumer, as in a test or on a laptop, should not wait for company.
    """

    initial_rebalance_delay_ms: int = 0
    """How long an empty group gathers members before its first generation."""
    min_session_timeout_ms: int = 6_000
    """The shortest session timeout a member may ask for."""
    max_session_timeout_ms: int = 1_800_000
    """The longest session timeout a member may ask for."""
    new_member_join_timeout_ms: int = 300_000
    """How long a newcomer's join may wait: it cannot send heartbeats, so it may be long gone."""
    max_group_size: int | None = None
    """How many members a classic group may have; None for any number."""
    consumer_times: ConsumerTimes = ConsumerTimes()
    """The timeouts of a consumer group that has none of its own."""
    consumer_max_size: int | None = None
    """How many members a consumer group may have; None for any number."""
    offset_metadata_max_bytes: int = 4_096
    """The longest note a client may attach to a committed offset."""
    offsets_retention_ms: int = 7 * DAY_MS
    """How long the offsets of a group without members are kept."""
    retention_check_ms: int = 600_000
    """How often expired offsets and groups with nothing left are removed."""
