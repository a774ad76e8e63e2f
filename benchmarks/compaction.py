"""Compaction beside Apache Kafka's log cleaner, and what it costs producers.

Run by `make bench NAME=compaction`. A topic is filled while it is not compacted, and then made so:
from that moment until its files have stopped shrinking, the clock runs. Both brokers look for work
every tenth of a second, and both get the same bytes, the same segment size and 128 MB for keys,
which is their default. Headrace's worker process has to start within the time that is measured.

When another topic is produced to meanwhile, each round also tells how long compaction went on after
that. It must have: otherwise a part of the producing had no compaction beside it. And it must end:
compaction that only waited would cost producers nothing.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import keyed, load
from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, NothingMeasured, run
from benchmarks.peers import APACHE_KAFKA, HEADRACE, Fleet, HeadraceProcess, Server
from benchmarks.report import Better, Row
from headrace.testing.apache_kafka import ApacheKafka

_SEGMENT_BYTES = 100 << 20
_VALUE_BYTES = 100
_PAYLOAD_BYTES = 1000
_QUIET = "Headrace, nothing to compact"
_COMPACTING = "Headrace, compacting"
_LEFT = "compacting_afterwards_seconds"
_POLL_SECONDS = 0.01
_STILL_SECONDS = 4.0
"""Files that have not changed for so long will not change any more."""

_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    records: int
    keys: int
    messages: int
    """How many are produced to another topic while one is compacted."""


FULL = Scale(rounds=3, records=10_000_000, keys=1_000_000, messages=4_000_000)
QUICK = Scale(rounds=1, records=2_000_000, keys=200_000, messages=300_000)


def experiments(fleet: Fleet, scale: Scale, kafka_data: Path) -> list[Experiment]:
    """Both comparisons."""
    return [_cleaning(fleet, scale, kafka_data), _producing(fleet, scale)]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Compaction beside Apache Kafka's, and producing meanwhile.")
    scale = QUICK if options.quick else FULL
    with (
        command(),
        tempfile.TemporaryDirectory(prefix="headrace-benchmark-") as directory,
        Fleet() as fleet,
    ):
        run("compaction", experiments(fleet, scale, Path(directory)), options)


def _cleaning(fleet: Fleet, scale: Scale, kafka_data: Path) -> Experiment:
    """How many records are compacted a second."""
    metric = "compacted_records"

    def measure(server: Server, data: Path) -> Figures:
        with _filled_topic(server, scale) as topic:
            load.settle_disk()
            seconds = _compact(server, topic, data / f"{topic}-0")
        return {metric: scale.records / seconds}

    def headrace() -> Figures:
        server = fleet.server(_launch_headrace)
        assert isinstance(server, HeadraceProcess)
        return measure(server, server.data)

    launch_kafka = partial(_launch_kafka, kafka_data)

    def apache_kafka() -> Figures:
        return measure(fleet.server(launch_kafka), kafka_data)

    return Experiment(
        "compaction",
        {HEADRACE: headrace, APACHE_KAFKA: apache_kafka},
        (Row(metric, "records/s", Better.HIGHER, metric, HEADRACE, APACHE_KAFKA, 1.0),),
        rounds=scale.rounds,
    )


def _producing(fleet: Fleet, scale: Scale) -> Experiment:
    """Producing to one topic while another is compacted, and while none is."""
    metric = "produce_while_compacting"

    def measure(*, compacting: bool) -> Figures:
        server = fleet.server(_launch_headrace)
        assert isinstance(server, HeadraceProcess)
        with _filled_topic(server, scale) as compacted, load.fresh_topic(server) as topic:
            directory = server.data / f"{compacted}-0"
            before = _log_bytes(directory)
            load.settle_disk()
            if compacting:
                _make_compacted(server, compacted)
            cost = load.produce(server, topic, payload_bytes=_PAYLOAD_BYTES, count=scale.messages)
            left = _until_compacted(directory, before) if compacting else 0.0
        return {metric: cost.rate, _LEFT: left}

    return Experiment(
        "producing",
        {
            _COMPACTING: partial(measure, compacting=True),
            _QUIET: partial(measure, compacting=False),
        },
        (Row(metric, "msg/s", Better.HIGHER, metric, _COMPACTING, _QUIET, 0.9),),
        rounds=2 * scale.rounds + 1,
    )


def _launch_headrace() -> HeadraceProcess:
    return HeadraceProcess(flush="os", settings=("compaction_check=100ms",))


def _launch_kafka(data: Path) -> ApacheKafka:
    return ApacheKafka(
        heap="1g",
        properties={
            "log.dirs": str(data),
            "log.cleaner.backoff.ms": "100",
            "log.segment.delete.delay.ms": "0",
        },
    )


@contextlib.contextmanager
def _filled_topic(server: Server, scale: Scale) -> Iterator[str]:
    """A topic with all the records, which is not compacted yet and goes when the block ends."""
    with load.fresh_topic(server) as topic:
        load.configure(server, topic, {"segment.bytes": str(_SEGMENT_BYTES), "retention.ms": "-1"})
        keyed.send(server, topic, count=scale.records, keys=scale.keys, value_bytes=_VALUE_BYTES)
        yield topic


def _make_compacted(server: Server, topic: str) -> None:
    load.configure(
        server, topic, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    )


def _compact(server: Server, topic: str, directory: Path) -> float:
    """Let a topic be compacted, and return the seconds until its files shrink no more."""
    before = _log_bytes(directory)
    _make_compacted(server, topic)
    return _until_compacted(directory, before)


def _until_compacted(directory: Path, before: int) -> float:
    """The seconds until a topic that had so many bytes shrinks no more; 0 if it has done so."""
    size = _log_bytes(directory)
    began = changed = time.monotonic()
    while size == before or time.monotonic() < changed + _STILL_SECONDS:
        if time.monotonic() > began + _TIMEOUT_SECONDS:
            raise NothingMeasured(f"{directory} was not compacted within {_TIMEOUT_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
        now = _log_bytes(directory)
        if now != size:
            size, changed = now, time.monotonic()
    return changed - began


def _log_bytes(directory: Path) -> int:
    """Bytes of the segments; what is still being written beside them does not count."""
    total = 0
    for path in directory.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


if __name__ == "__main__":
    main()
