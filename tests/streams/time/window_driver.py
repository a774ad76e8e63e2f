"""A driver that runs a flow with windows, to be killed meanwhile."""

import sys
from pathlib import Path

from headrace.settings import KafkaSettings, Settings, StreamsSettings
from headrace.streams import Flow
from headrace.streams.session import spark_session
from headrace.streams.time import Watermark
from headrace.streams.windows import tumbling

RECORDS_PER_BATCH = 40


def windows(name: str, settings: Settings, source: str, results: str, late: str) -> Flow:
    """Counts per second that are corrected, and what is too late for that."""
    flow = Flow(name, settings=settings)
    events = flow.stream(
        source,
        "n bigint, at timestamp",
        time="at",
        watermark=Watermark(out_of_order="2 s"),
        max_records_per_batch=RECORDS_PER_BATCH,
    )
    table = events.window(tumbling("5 s"), late="correct", lateness="10 s").agg(
        n="count(*)", total="sum(n)"
    )
    flow.topic(results, table.changes(), key="window_start", partitions=1)
    flow.topic(late, table.late.select("n"), key="n", partitions=1)
    return flow


def settings_of(bootstrap: str, checkpoints: Path, master: str) -> Settings:
    """Settings of a flow that does not lose time."""
    return Settings(
        kafka=KafkaSettings(bootstrap=bootstrap),
        streams=StreamsSettings(
            master=master, partitions=2, checkpoints=str(checkpoints), backoff_ms=10, tries=2
        ),
    )


def main(
    master: str, bootstrap: str, checkpoints: str, name: str, source: str, results: str, late: str
) -> None:
    """Run until killed, or until all that is there is read."""
    settings = settings_of(bootstrap, Path(checkpoints), master)
    spark_session(settings.streams, name=name)
    windows(name, settings, source, results, late).run(once=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
