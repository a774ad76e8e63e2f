"""What an operator may decide about transactions."""

from dataclasses import dataclass

from headrace.broker.groups.settings import DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Limits of the transaction coordinator; the defaults are Kafka's."""

    max_timeout_ms: int = 15 * 60 * 1000
    """The longest time that a producer may ask to keep a transaction open."""
    expiration_ms: int = 7 * DAY_MS
    """How long a transactional id that is not used is remembered."""
    expiration_check_ms: int = 60 * 60 * 1000
    """How often ids that have expired are looked for."""
    compaction_check_ms: int = 10_000
    """How often the journal is checked for history that can go."""
    retry_ms: int = 1_000
    """How long to wait before a disk that refused a marker is asked again."""
