"""A query of the real-time lane, looked after like the others."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.realtime.jars import see_connector
from headrace.streams.running.query import Prepared, QueryRun
from headrace.streams.sinks.contract import Batch, BatchSink

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BATCH_SECONDS: Final = 10
"""How long Spark reads before it notes how far it has got: what is written twice after a failure,
and how often rates are known. Between two batches nothing is read for about a tenth of a second."""

_COMMIT_SECONDS: Final = 5


def in_real_time(writer: "DataStreamWriter") -> "DataStreamWriter":
    """A writer that is to run in Spark's real-time mode."""
    # PySpark's annotations do not know that trigger yet.
    trigger: Any = writer.trigger
    with_trigger: DataStreamWriter = trigger(realTime=f"{BATCH_SECONDS} seconds")
    return with_trigger


@dataclass(frozen=True, slots=True)
class RealtimePrepared(Prepared):
    """Everything that a query of the lane needs to start."""

    options: Mapping[str, str] = field(default_factory=dict)
    """What the connector writes with."""


class RealtimeRun(QueryRun):
    """The life of a query that Spark runs in real-time mode."""

    def _run_until_it_ends(self) -> None:
        try:
            super()._run_until_it_ends()
        finally:
            # No batch goes through the gate here; Spark was at the one after the last it noted.
            done = self.tally.now.batch
            self._gate.entered = 0 if done is None else done + 1

    def _started(self) -> "StreamingQuery":
        prepared = self._prepared
        assert isinstance(prepared, RealtimePrepared)
        assert not isinstance(prepared.sink, BatchSink)
        prepared.sink.begin(Batch(prepared.name, 0, 1))
        see_connector(prepared.rows.sparkSession)
        writer = (
            prepared.rows.writeStream.queryName(prepared.name)
            .format("kafka")
            .options(**prepared.options)
            .option("checkpointLocation", prepared.checkpoint.spark_location)
            .outputMode(prepared.mode)
        )
        if self._policy.once:
            return writer.trigger(availableNow=True).start()
        return in_real_time(writer).start()

    def _end(self, query: "StreamingQuery") -> None:
        """Wait until Spark has noted how far it is, then stop: little is then written twice."""
        seen = query.lastProgress
        deadline = time.monotonic() + BATCH_SECONDS + _COMMIT_SECONDS
        while query.isActive and time.monotonic() < deadline:
            last = query.lastProgress
            if last is not None and (seen is None or last.batchId > seen.batchId):
                break
            time.sleep(0.02)
        query.stop()
