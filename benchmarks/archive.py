"""What archiving costs producers: `make bench NAME=archive`.

One topic has closed segments that the archive lacks, and archiving of it begins when another is
produced to. The peer is the same broker with nothing to archive. The archive is a directory on the
disk that the log is on, so that both want the same disk: the worst place for it.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks import load
from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, run
from benchmarks.peers import Fleet, HeadraceProcess, Server
from benchmarks.report import Better, Row

_SEGMENT_BYTES = 100 << 20
_PAYLOAD_BYTES = 1000
_ARCHIVING = "Headrace, archiving"
_QUIET = "Headrace, nothing to archive"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    archived: int
    """How many messages wait to be archived."""
    messages: int
    """How many are produced to another topic meanwhile."""


FULL = Scale(rounds=7, archived=1_500_000, messages=4_000_000)
QUICK = Scale(rounds=2, archived=400_000, messages=300_000)


def experiments(fleet: Fleet, scale: Scale, archive: str) -> list[Experiment]:
    """The one comparison."""
    metric = "produce_while_archiving"

    def launch() -> HeadraceProcess:
        return HeadraceProcess(
            flush="os", settings=(f"archive={archive}", "archive_interval=100ms")
        )

    def measure(start: Callable[[Server, str], None]) -> Figures:
        server = fleet.server(launch)
        with load.fresh_topic(server) as old, load.fresh_topic(server) as topic:
            load.configure(server, old, {"segment.bytes": str(_SEGMENT_BYTES)})
            load.produce(server, old, payload_bytes=_PAYLOAD_BYTES, count=scale.archived)
            load.settle_disk()
            start(server, old)
            cost = load.produce(server, topic, payload_bytes=_PAYLOAD_BYTES, count=scale.messages)
        return {metric: cost.rate}

    return [
        Experiment(
            "archiving",
            {_ARCHIVING: partial(measure, _archive), _QUIET: partial(measure, _nothing)},
            (Row(metric, "msg/s", Better.HIGHER, metric, _ARCHIVING, _QUIET, 0.9),),
            rounds=scale.rounds,
        )
    ]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Producing while another topic is archived.")
    scale = QUICK if options.quick else FULL
    with (
        command(),
        tempfile.TemporaryDirectory(prefix="headrace-benchmark-") as archive,
        Fleet() as fleet,
    ):
        run("archive", experiments(fleet, scale, archive), options)


def _archive(server: Server, topic: str) -> None:
    load.configure(server, topic, {"remote.storage.enable": "true"})


def _nothing(_server: Server, _topic: str) -> None:
    return


if __name__ == "__main__":
    main()
