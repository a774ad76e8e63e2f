"""Queries on a machine that is busy."""

from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_BUSY = "failed to connect back"
"""What a query ends with if one of Spark's own processes took more than ten seconds to start."""


def catch_up(writer: "DataStreamWriter") -> None:
    """Let a query read all that is there, started again if the machine was too busy for it."""
    while True:
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
            return
        except StreamingQueryException as error:
            if _BUSY not in str(error):
                raise
