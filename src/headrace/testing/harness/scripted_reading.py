"""A task of the source whose records are at hand; what follows is the source's own code."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.streams.source.options import SourceOptions
from headrace.streams.source.reading import TaskReader
from headrace.streams.source.splits import Range

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class ScriptedReader(TaskReader):
    """Reads ranges that a test has sent."""

    def __init__(
        self,
        options: SourceOptions,
        schema: "StructType",
        judging: "StructType",
        sent: Mapping[Range, pa.RecordBatch],
    ) -> None:
        super().__init__(options, schema, judging)
        self._sent = sent

    def records(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """The records of a range."""
        yield self._sent[wanted]
