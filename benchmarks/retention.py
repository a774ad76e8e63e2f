"""Headrace beside itself, full and crowded: `make bench NAME=retention`.

A log must not slow down because it is long, nor a broker because many clients are connected.
"""

import functools
import shutil
import tempfile
from dataclasses import dataclass

from benchmarks import load
from benchmarks.command import Options, command
from benchmarks.crowd import allow_descriptors, idle_connections
from benchmarks.experiment import Experiment, Figures, NothingMeasured, run
from benchmarks.peers import Fleet, HeadraceProcess, Server, launch_headrace
from benchmarks.report import Better, Row

_PAYLOAD_BYTES = 1000
_GIGABYTE = 1_000_000_000
_EMPTY = "Headrace, empty log"
_QUIET = "Headrace, no idle connections"
_TARGET = 0.9


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    messages: int
    """How many a round produces."""
    retained_gigabytes: float
    connections: int

    @property
    def disk_bytes(self) -> float:
        """Room for what is retained, for all rounds added to it, and as much again to be safe."""
        rounds = (self.rounds + 1) * self.messages * _PAYLOAD_BYTES
        return self.retained_gigabytes * _GIGABYTE + 2 * rounds


FULL = Scale(rounds=7, messages=800_000, retained_gigabytes=10, connections=2_000)
QUICK = Scale(rounds=3, messages=200_000, retained_gigabytes=1, connections=500)


def experiments(fleet: Fleet, scale: Scale) -> list[Experiment]:
    """Both comparisons."""
    return [_retained(fleet, scale), _crowded(fleet, scale)]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Headrace full and crowded beside Headrace empty and quiet.")
    scale = QUICK if options.quick else FULL
    with command(), Fleet() as fleet:
        _require_room(scale)
        allow_descriptors(scale.connections)
        run("retention", experiments(fleet, scale), options)


def _retained(fleet: Fleet, scale: Scale) -> Experiment:
    """Producing to a topic that holds gigabytes, and to one that holds nothing."""
    metric = f"produce_{scale.retained_gigabytes:g}GB_retained"
    kept = f"Headrace, {scale.retained_gigabytes:g} GB"

    @functools.cache
    def filled() -> tuple[Server, str]:
        server = fleet.server(_launch_keeping)
        topic = load.create_topic(server)
        count = round(scale.retained_gigabytes * _GIGABYTE / _PAYLOAD_BYTES)
        load.produce(server, topic, payload_bytes=_PAYLOAD_BYTES, count=count)
        return server, topic

    def full() -> Figures:
        server, topic = filled()
        return {metric: _produce(server, topic, scale)}

    def empty() -> Figures:
        server = fleet.server(launch_headrace)
        with load.fresh_topic(server) as topic:
            return {metric: _produce(server, topic, scale)}

    return Experiment(
        "retained",
        {kept: full, _EMPTY: empty},
        (Row(metric, "msg/s", Better.HIGHER, metric, kept, _EMPTY, _TARGET),),
        rounds=scale.rounds,
    )


def _crowded(fleet: Fleet, scale: Scale) -> Experiment:
    """Producing while many other connections are open, and while there are none."""
    metric = f"produce_{scale.connections}_idle_connections"
    crowd = f"Headrace, {scale.connections} idle connections"

    def crowded() -> Figures:
        server = fleet.server(launch_headrace)
        with (
            load.fresh_topic(server) as topic,
            idle_connections(server.bootstrap, scale.connections),
        ):
            return {metric: _produce(server, topic, scale)}

    def quiet() -> Figures:
        server = fleet.server(launch_headrace)
        with load.fresh_topic(server) as topic:
            return {metric: _produce(server, topic, scale)}

    return Experiment(
        "crowded",
        {crowd: crowded, _QUIET: quiet},
        (Row(metric, "msg/s", Better.HIGHER, metric, crowd, _QUIET, _TARGET),),
        rounds=scale.rounds,
    )


def _require_room(scale: Scale) -> None:
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    if free < scale.disk_bytes:
        raise NothingMeasured(
            f"{directory} has {free / _GIGABYTE:.1f} GB free and this needs "
            f"{scale.disk_bytes / _GIGABYTE:.1f}: set TMPDIR to a directory on a larger disk"
        )


def _launch_keeping() -> HeadraceProcess:
    """A second Headrace, so that the empty log has a process without history."""
    return HeadraceProcess(flush="os")


def _produce(server: Server, topic: str, scale: Scale) -> float:
    load.settle_disk()
    return load.produce(server, topic, payload_bytes=_PAYLOAD_BYTES, count=scale.messages).rate


if __name__ == "__main__":
    main()
