"""Operators on Spark: several outputs, restarts, batches that come again, and looking inside."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.streams.state.operators import Counting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def session(spark: "SparkSession") -> "SparkSession":
    """A session of the same Spark, set up to store state."""
    stateful = spark.newSession()
    # The state store copies its snapshots through Hadoop's checksummed local file system.
    stateful.conf.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    stateful.conf.set("fs.file.impl.disable.cache", "true")
    return stateful


class Counted:
    """A running count over files, run batch by batch, with what it said."""

    def __init__(self, session: "SparkSession", home: Path) -> None:
        self._session = session
        self._home = home
        (home / "source").mkdir()
        self.checkpoint = str(home / "checkpoint")
        self.counts: dict[int, int] = {}
        self.odd: list[int] = []
        self.found: set[str] = set()
        self.fail = False

    def arrive(self, keys: list[int]) -> None:
        number = len(list((self._home / "source").iterdir()))
        pq.write_table(pa.table({"k": keys}), self._home / "source" / f"{number:03}.parquet")

    def run(self, operator: Counting | None = None) -> None:
        from headrace.streams.state.keyed import Input, keyed

        source = self._session.readStream.schema("k bigint").option("maxFilesPerTrigger", 1)
        rows = source.parquet(str(self._home / "source"))
        inputs = {"events": Input(rows, ("k",))}
        counted = keyed(inputs, operator or Counting(), flow="tests", buckets=4)

        def tell(batch: "DataFrame", number: int) -> None:
            with counted.outputs(batch) as outputs:
                found = outputs["counts"].collect()
                odd = [row.k for row in outputs["odd"].collect()]
                told = counted.output("_statistics", batch).collect()
            if self.fail:
                raise RuntimeError("the sink is full")
            self.counts |= {row.k: row.n for row in found}
            self.odd += odd
            self.found |= {row.found for row in told}

        query = (
            counted.tagged.writeStream.foreachBatch(tell)
            .outputMode("update")
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def test_state_survives_a_restart_and_a_batch_that_failed_counts_once(session, tmp_path):
    counted = Counted(session, tmp_path)
    counted.arrive([1, 1, 2])
    counted.run()
    assert counted.counts == {1: 2, 2: 1}
    assert counted.odd == [2]
    counted.arrive([1, 3])
    counted.fail = True
    with pytest.raises(Exception, match="the sink is full"):
        counted.run()
    counted.fail = False
    counted.run()
    assert counted.counts == {1: 3, 2: 1, 3: 1}
    _look_inside(session, counted)
    counted.arrive([1])
    with pytest.raises(Exception, match="its version was 1 and is 2 now"):
        counted.run(Counting(version=2))


def _look_inside(session: "SparkSession", counted: Counted) -> None:
    from headrace.streams.state.errors import StateError
    from headrace.streams.state.inspecting import operators, state_rows

    (operator,) = operators(session, counted.checkpoint)
    assert (operator.name, operator.version) == ("counting", 1)
    assert [(each.name, each.rows) for each in operator.tables] == [("counts", 3)]
    rows = state_rows(session, counted.checkpoint, "counts").collect()
    assert {row.k: row.n for row in rows} == counted.counts
    with pytest.raises(StateError, match="did you mean counts"):
        state_rows(session, counted.checkpoint, "count")


def test_inputs_keyed_by_different_types_are_refused(spark):
    from headrace.streams.state import InvalidOperator
    from headrace.streams.state.keyed import Input, keyed

    numbers = spark.range(1).selectExpr("id as k")
    texts = spark.range(1).selectExpr("string(id) as k")
    with pytest.raises(InvalidOperator, match="a by bigint, b by string"):
        keyed({"a": Input(numbers, ("k",)), "b": Input(texts, ("k",))}, Counting(), flow="tests")
    with pytest.raises(InvalidOperator, match="did you mean k"):
        keyed({"a": Input(numbers, ("kk",))}, Counting(), flow="tests")
