"""Headrace's broker beside Apache Kafka: `make bench NAME=broker`.

Both run without fsync and with their defaults, side by side on one machine, and serve the same
librdkafka client. Headrace with fsync, which is its own default, is measured in the same rounds
and reported in rows of its own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks import load
from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, Measure, run
from benchmarks.peers import (
    APACHE_KAFKA,
    HEADRACE,
    HEADRACE_FSYNC,
    Fleet,
    Launch,
    Server,
    launch_apache_kafka,
    launch_headrace,
    launch_headrace_fsync,
)
from benchmarks.process import memory_bytes
from benchmarks.report import Better, Row

_LAUNCHES: dict[str, Launch] = {
    HEADRACE: launch_headrace,
    APACHE_KAFKA: launch_apache_kafka,
    HEADRACE_FSYNC: launch_headrace_fsync,
}
_PAIRS = 4
_PARTITIONS = 8
_BYTES = {"100B": 100, "1kB": 1000}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    messages: dict[str, int]
    """How many messages of each size a round produces and then consumes."""
    mixed_messages: int
    synchronous_messages: int
    starts: int
    idle_seconds: float
    """How long a server may settle after its start before its memory is read."""


FULL = Scale(
    rounds=5,
    messages={"100B": 5_000_000, "1kB": 600_000},
    mixed_messages=800_000,
    synchronous_messages=5_000,
    starts=3,
    idle_seconds=5.0,
)
QUICK = Scale(
    rounds=2,
    messages={"100B": 1_000_000, "1kB": 160_000},
    mixed_messages=240_000,
    synchronous_messages=1_000,
    starts=1,
    idle_seconds=2.0,
)


def experiments(fleet: Fleet, scale: Scale) -> list[Experiment]:
    """Everything that is compared, in the order in which it runs."""
    return [
        # First, while nothing else is running.
        _start(scale),
        _there_and_back(fleet, scale, "100B"),
        _there_and_back(fleet, scale, "1kB"),
        _mixed(fleet, scale),
        _synchronous(fleet, scale),
    ]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Headrace's broker beside Apache Kafka.")
    with command(), Fleet() as fleet:
        run("broker", experiments(fleet, QUICK if options.quick else FULL), options)


def _start(scale: Scale) -> Experiment:
    """From starting a process on an empty directory to its first answer, and its memory then."""

    def measure(launch: Launch) -> Figures:
        with launch() as server:
            time.sleep(scale.idle_seconds)
            megabytes = memory_bytes(server.pid) / 1e6
            return {"start": server.start_seconds, "idle_memory": megabytes}

    return Experiment(
        "start",
        {side: partial(measure, _LAUNCHES[side]) for side in (HEADRACE, APACHE_KAFKA)},
        (
            _against_kafka("start", "s", Better.LOWER, 0.15),
            _against_kafka("idle_memory", "MB", Better.LOWER, 0.25),
        ),
        rounds=scale.starts,
    )


def _there_and_back(fleet: Fleet, scale: Scale, size: str) -> Experiment:
    """Fill a fresh topic, then read it from its start; both go through the page cache."""
    count = scale.messages[size]

    def measure(server: Server) -> Figures:
        with load.fresh_topic(server) as topic:
            produced = load.produce(server, topic, payload_bytes=_BYTES[size], count=count)
            load.settle_disk()
            consumed = load.consume(server, topic, count=count)
        return {
            f"produce_{size}": produced.rate,
            f"consume_{size}": consumed.rate,
            f"cpu_produce_{size}": produced.cpu_seconds,
            f"cpu_consume_{size}": consumed.cpu_seconds,
        }

    return Experiment(
        size,
        _everybody(fleet, measure),
        (
            _against_kafka(f"produce_{size}", "msg/s", Better.HIGHER, 1.0),
            _fsync_against_kafka(f"produce_{size}", "msg/s", Better.HIGHER),
            _against_kafka(f"consume_{size}", "msg/s", Better.HIGHER, 1.0),
            _against_kafka(f"cpu_produce_{size}", "s", Better.LOWER, 0.8),
            _against_kafka(f"cpu_consume_{size}", "s", Better.LOWER, 0.8),
        ),
        rounds=scale.rounds,
    )


def _mixed(fleet: Fleet, scale: Scale) -> Experiment:
    """Four producers and four consumers at once, from the first send to the last message read."""

    def measure(server: Server) -> Figures:
        with load.fresh_topic(server, partitions=_PARTITIONS) as topic:
            cost = load.mixed(
                server,
                topic,
                pairs=_PAIRS,
                partitions=_PARTITIONS,
                payload_bytes=1000,
                count=scale.mixed_messages,
            )
        load.settle_disk()
        return {"mixed_4p4c": cost.rate, "cpu_mixed_4p4c": cost.cpu_seconds}

    return Experiment(
        "mixed",
        _everybody(fleet, measure),
        (
            _against_kafka("mixed_4p4c", "msg/s", Better.HIGHER, 1.0),
            _against_kafka("cpu_mixed_4p4c", "s", Better.LOWER, 0.8),
        ),
        rounds=scale.rounds,
    )


def _synchronous(fleet: Fleet, scale: Scale) -> Experiment:
    """One message in flight, acknowledged before the next is sent."""

    def measure(server: Server) -> Figures:
        with load.fresh_topic(server) as topic:
            took = load.synchronous(
                server, topic, payload_bytes=100, count=scale.synchronous_messages
            )
        return {"sync_p50": load.percentile(took, 50), "sync_p99": load.percentile(took, 99)}

    return Experiment(
        "synchronous",
        _everybody(fleet, measure),
        (
            _against_kafka("sync_p50", "ms", Better.LOWER, 0.8),
            _against_kafka("sync_p99", "ms", Better.LOWER, 0.5),
            _fsync_against_kafka("sync_p50", "ms", Better.LOWER),
            _fsync_against_kafka("sync_p99", "ms", Better.LOWER),
        ),
        rounds=scale.rounds,
    )


def _everybody(fleet: Fleet, measure: Callable[[Server], Figures]) -> dict[str, Measure]:
    return {side: partial(_on_server, fleet, launch, measure) for side, launch in _LAUNCHES.items()}


def _on_server(fleet: Fleet, launch: Launch, measure: Callable[[Server], Figures]) -> Figures:
    return measure(fleet.server(launch))


def _against_kafka(metric: str, unit: str, better: Better, target: float) -> Row:
    return Row(metric, unit, better, metric, HEADRACE, APACHE_KAFKA, target)


def _fsync_against_kafka(figure: str, unit: str, better: Better) -> Row:
    """Headrace keeping a promise that Kafka's defaults do not make: shown, without a target."""
    return Row(f"{figure}_fsync", unit, better, figure, HEADRACE_FSYNC, APACHE_KAFKA)


if __name__ == "__main__":
    main()
