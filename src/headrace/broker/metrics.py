"""What the broker counts about itself, and the text that Prometheus reads."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore
    from headrace.broker.partition import Partition


@dataclass(slots=True)
class CompactionMetrics:
    """What compaction has done since the broker started, and what it has before it."""

    runs: int = 0
    failures: int = 0
    records_read: int = 0
    records_removed: int = 0
    keyless_records: int = 0
    bytes_read: int = 0
    bytes_removed: int = 0
    bytes_pressed: int = 0
    limit: int = 0
    seconds: float = 0.0
    last_run_ms: int = 0
    uncleanable: int = 0
    dirty_ratios: dict[tuple[str, int], float] = field(default_factory=dict)


class Metrics:
    """Counters that have no better home; partitions count their own traffic."""

    __slots__ = (
        "compaction",
        "connections",
        "connections_total",
        "excised_records",
        "refused_connections",
        "rejected_batches",
        "requests",
        "retired_bytes",
        "scrubs",
        "truncated_bytes",
        "verified_bytes",
    )

    def __init__(self) -> None:
        self.compaction = CompactionMetrics()
        self.requests: Counter[int] = Counter()
        self.connections = 0
        self.connections_total = 0
        self.excised_records = 0
        self.refused_connections = 0
        self.rejected_batches = 0
        self.retired_bytes = 0
        self.scrubs = 0
        self.truncated_bytes = 0
        self.verified_bytes = 0


def render(core: "BrokerCore") -> str:
    """All metrics in Prometheus' text format."""
    return "\n".join(_lines(core)) + "\n"


def _lines(core: "BrokerCore") -> Iterator[str]:
    from headrace.broker.apis import APIS
    from headrace.broker.private import PRIVATE

    metrics = core.metrics
    yield from _family("connections", "gauge", "Open client connections.", metrics.connections)
    yield from _family(
        "connections_total", "counter", "Connections accepted.", metrics.connections_total
    )
    yield from _family(
        "refused_connections_total",
        "counter",
        "Connections closed for bad frames or for being too many.",
        metrics.refused_connections,
    )
    yield from _family(
        "rejected_batches_total", "counter", "Record batches refused.", metrics.rejected_batches
    )
    yield from _family("syncs_total", "counter", "Calls to fsync.", core.commits.syncs)
    yield from _family(
        "retention_removed_bytes_total",
        "counter",
        "Bytes removed by retention and DeleteRecords.",
        metrics.retired_bytes,
    )
    yield from _family(
        "excised_records_total",
        "counter",
        "Records erased by headrace excise, in the log and in the archive.",
        metrics.excised_records,
    )
    yield from _family(
        "recovery_truncated_bytes",
        "gauge",
        "Bytes of torn tails cut off when the broker started.",
        metrics.truncated_bytes,
    )
    yield from _family(
        "verified_bytes_total",
        "counter",
        "Stored bytes read to see whether they are intact.",
        metrics.verified_bytes,
    )
    yield from _family("scrubs_total", "counter", "Rounds of scrubbing.", metrics.scrubs)
    yield from _family(
        "request_memory_bytes", "gauge", "Memory of requests in flight.", core.memory.in_use
    )
    yield from _family("groups", "gauge", "Consumer groups.", len(core.groups.list_groups()))
    yield from _family(
        "open_transactions", "gauge", "Transactions under way.", core.transactions.open_count
    )
    yield from _family(
        "timed_out_transactions_total",
        "counter",
        "Transactions aborted because their time was up.",
        core.transactions.timed_out,
    )
    yield from _archive_families(core)
    yield "# HELP headrace_requests_total Requests by API."
    yield "# TYPE headrace_requests_total counter"
    for key, count in sorted(metrics.requests.items()):
        name = "private" if key == PRIVATE else APIS[key].name
        yield f'headrace_requests_total{{api="{name}"}} {count}'
    yield from _compaction_families(metrics.compaction)
    yield from _partition_families(core)
    yield from _overtaken_family(core)


def _archive_families(core: "BrokerCore") -> Iterator[str]:
    if core.archiving is None or core.archive is None:
        return
    archiving, reader = core.archiving, core.archive.reader
    for name, kind, text, value in (
        ("archived_bytes", "gauge", "Bytes in the archive.", archiving.archived_bytes),
        (
            "archive_pending_bytes",
            "gauge",
            "Bytes of sealed segments that are not in the archive yet.",
            archiving.pending_bytes,
        ),
        (
            "archive_uploaded_bytes_total",
            "counter",
            "Bytes moved to the archive.",
            archiving.uploaded_bytes,
        ),
        (
            "archive_limit_bytes",
            "gauge",
            "Bytes a second that go to the archive because producers are busy; 0 for no limit.",
            core.archive.limit,
        ),
        (
            "archive_failing",
            "gauge",
            "1 while nothing can be archived, else 0.",
            int(archiving.failure is not None),
        ),
        (
            "archive_failures_total",
            "counter",
            "Rounds of archiving and downloads that failed.",
            archiving.failures + reader.failures,
        ),
        (
            "archive_downloads_total",
            "counter",
            "Segments brought back from the archive.",
            reader.downloads,
        ),
        (
            "archive_downloaded_bytes_total",
            "counter",
            "Bytes brought back from the archive.",
            reader.downloaded_bytes,
        ),
        (
            "archive_cache_bytes",
            "gauge",
            "Bytes of archived segments on the local disk.",
            reader.cached_bytes,
        ),
    ):
        yield from _family(name, kind, text, value)


def _compaction_families(done: CompactionMetrics) -> Iterator[str]:
    families: tuple[tuple[str, str, str, float], ...] = (
        ("compaction_runs_total", "counter", "Rounds of compaction.", done.runs),
        ("compaction_failures_total", "counter", "Rounds that failed.", done.failures),
        ("compaction_read_records_total", "counter", "Records looked at.", done.records_read),
        (
            "compaction_removed_records_total",
            "counter",
            "Records removed, those without key included.",
            done.records_removed,
        ),
        (
            "compaction_keyless_records_total",
            "counter",
            "Records removed because they had no key.",
            done.keyless_records,
        ),
        ("compaction_read_bytes_total", "counter", "Bytes looked at.", done.bytes_read),
        ("compaction_removed_bytes_total", "counter", "Bytes removed.", done.bytes_removed),
        (
            "compaction_pressed_bytes_total",
            "counter",
            "Bytes worked on without giving way, because of compaction_floor.",
            done.bytes_pressed,
        ),
        (
            "compaction_limit_bytes",
            "gauge",
            "Bytes a second that compaction may move because producers are busy; 0 for no limit.",
            done.limit,
        ),
        ("compaction_seconds_total", "counter", "Time spent compacting.", done.seconds),
        (
            "compaction_last_run_timestamp_seconds",
            "gauge",
            "When the last round ended; 0 before the first.",
            done.last_run_ms / 1000,
        ),
        (
            "compaction_uncleanable_partitions",
            "gauge",
            "Partitions that are not compacted because a batch is damaged.",
            done.uncleanable,
        ),
    )
    for name, kind, text, value in families:
        yield from _family(name, kind, text, value)
    yield "# HELP headrace_compaction_dirty_ratio Share of a log that is not compacted yet."
    yield "# TYPE headrace_compaction_dirty_ratio gauge"
    for (topic, partition), ratio in sorted(done.dirty_ratios.items()):
        labels = f'topic="{topic}",partition="{partition}"'
        yield f"headrace_compaction_dirty_ratio{{{labels}}} {ratio:.3f}"


def _partition_families(core: "BrokerCore") -> Iterator[str]:
    partitions = [partition for topic in core.topics for partition in topic.partitions]
    families: tuple[tuple[str, str, str, Callable[[Partition], int]], ...] = (
        ("records_in_total", "counter", "Records appended.", lambda p: p.records_in),
        ("bytes_in_total", "counter", "Bytes appended.", lambda p: p.bytes_in),
        ("bytes_out_total", "counter", "Bytes fetched.", lambda p: p.bytes_out),
        ("log_start_offset", "gauge", "First offset kept.", lambda p: p.start_offset),
        ("high_watermark", "gauge", "First offset not readable.", lambda p: p.log.high_watermark),
        ("log_size_bytes", "gauge", "Bytes stored.", lambda p: p.log.size),
        ("damaged_ranges", "gauge", "Known damages.", lambda p: len(p.log.damage)),
    )
    for name, kind, text, value in families:
        yield f"# HELP headrace_{name} {text}"
        yield f"# TYPE headrace_{name} {kind}"
        for partition in partitions:
            labels = f'topic="{partition.topic}",partition="{partition.index}"'
            yield f"headrace_{name}{{{labels}}} {value(partition)}"


def _overtaken_family(core: "BrokerCore") -> Iterator[str]:
    yield (
        "# HELP headrace_overtaken_records_total "
        "Offsets removed before the group had read them, since the broker started."
    )
    yield "# TYPE headrace_overtaken_records_total counter"
    for group_id, where, records in core.overtaken:
        labels = f'group="{_escaped(group_id)}",topic="{where.topic}",partition="{where.partition}"'
        yield f"headrace_overtaken_records_total{{{labels}}} {records}"


def _escaped(label: str) -> str:
    """Text that a client chose, as a label's value may hold it."""
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _family(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield f"# HELP headrace_{name} {text}"
    yield f"# TYPE headrace_{name} {kind}"
    yield f"headrace_{name} {value}"
