"""What travels through the shuffle, and that the order in which it arrives is of no consequence."""

import random
from collections import Counter
from typing import Any
from uuid import uuid4

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from headrace.streams.state import blobs
from headrace.streams.state.blobs import from_blob, schema_to_text
from headrace.streams.state.bucket import Job
from headrace.streams.state.hashing import KEYS, hashes
from headrace.streams.state.packing import Packing, bucket_keys, spark_hash
from headrace.streams.state.storage import MemoryStorage
from tests.streams.state.operators import COUNTS, Counting


class Latest:
    """Bounds by the largest value of `k`, as if that were a time."""

    def observe(self, source, events):
        return {
            f"{source}.even" if each % 2 == 0 else f"{source}.odd": each for each in events["k"]
        }

    def advance(self, memory, bounds):
        return str(max(bounds.values())), max(bounds.values())


def _tasks(*keys: list[int]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"k": pa.array(each, pa.int64())}) for each in keys]


def _packed(watermark=None, buckets=4, tasks=((1, 2, 3, 1), (3, 4))) -> list[dict[str, Any]]:
    packing = Packing("events", ("k",), buckets, Counting(), watermark)
    rows: list[dict[str, Any]] = []
    for task, batch in enumerate(_tasks(*map(list, tasks))):
        for packed in packing.pack(task, [batch]):
            rows += packed.to_pylist()
    return rows


def test_rows_are_prepared_and_arrive_in_the_bucket_of_their_key():
    counted: Counter[int] = Counter()
    places: dict[int, set[int]] = {}
    for row in _packed():
        for each in from_blob(row["rows"]).to_pylist():
            counted[each["k"]] += each["n"]
            places.setdefault(each["k"], set()).add(row["bucket"])
    assert counted == {1: 2, 2: 1, 3: 2, 4: 1}
    assert all(len(each) == 1 for each in places.values())


def test_with_a_watermark_every_bucket_hears_from_every_task():
    heard = [row for row in _packed(Latest()) if row["bounds"] is not None]
    assert {(row["task"], row["bucket"]) for row in heard} == {
        (task, bucket) for task in (0, 1) for bucket in bucket_keys(4)
    }


def test_many_rows_of_one_bucket_are_several_blobs_in_their_order(monkeypatch):
    monkeypatch.setattr(blobs, "LARGEST", 400)
    rows = _packed(tasks=[range(200)], buckets=2)
    for bucket in bucket_keys(2):
        found = [row for row in rows if row["bucket"] == bucket]
        assert len(found) > 1
        assert [row["part"] for row in found] == list(range(len(found)))
        keys = [each["k"] for row in found for each in from_blob(row["rows"]).to_pylist()]
        assert keys == sorted(keys)
    assert sum(from_blob(row["rows"]).num_rows for row in rows) == 200


def test_a_large_table_is_several_blobs_and_a_row_is_never_divided():
    table = pa.table({"text": ["a" * 700_000, "b" * 700_000, "c" * 3_000_000, "d"]})
    found = [from_blob(each) for each in blobs.to_blobs(table)]
    assert len(found) == 4
    assert pa.concat_tables(found).equals(table)
    assert list(blobs.to_blobs(table.slice(0, 0))) == []


def test_a_task_without_rows_says_nothing():
    assert _packed(Latest(), tasks=()) == []


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_arrival_changes_neither_outputs_nor_state(seed):
    pytest.importorskip("pyspark")
    assert _applied(random.Random(seed)) == _applied(None)


def _applied(shuffled: random.Random | None) -> tuple[list[tuple[str, bytes]], bytes | None]:
    from pyspark.sql import Row

    from headrace.streams.state.processor import BucketProcessor

    rows = [Row(**each) for each in _packed(Latest(), buckets=1)]
    if shuffled is not None:
        shuffled.shuffle(rows)
    job = Job("tests", Counting(), Latest())
    processor = BucketProcessor(job, {"events": schema_to_text(COUNTS)}, 1)
    storage = MemoryStorage()
    processor._storage = storage
    processor._numbers = {bucket_keys(1)[0]: 0}
    processor._empty = {"events": pl.DataFrame()}
    processor._place = (str(uuid4()), "counting")
    said = processor.handleInputRows((bucket_keys(1)[0],), iter(rows), None)
    return [(row.output, row.rows) for row in said], storage.record


def test_any_divisor_of_the_buckets_shares_them_out_evenly():
    for partitions in (1, 2, 3, 4, 6, 12):
        shares = Counter(spark_hash(key) % partitions for key in bucket_keys(12))
        assert set(shares.values()) == {12 // partitions}


def test_spark_hashes_the_keys_of_buckets_as_we_think(spark):
    found = spark.range(50).selectExpr("cast(id as int) as i", "hash(cast(id as int)) as h")
    assert all(spark_hash(row.i) == row.h for row in found.collect())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, None], pa.int32()), pa.array([1, None], pa.int64())),
        (pa.array(["a", None, "12345678z"]), pa.array(["a", None, "12345678z"], pa.large_string())),
        (pa.array([0.0, float("nan")]), pa.array([-0.0, float("nan")])),
        (pa.array(["x", "b", "c"]).slice(1), pa.array(["b", "c"])),
        (pa.array([5, 7, 9]).slice(1), pa.array([7, 9])),
    ],
)
def test_equal_keys_have_equal_hashes_however_they_lie_in_memory(one, other):
    assert (hashes([one], KEYS, len(one)) == hashes([other], KEYS, len(other))).all()


def test_hashes_never_change():
    """They decide where state is; another hash would lose it."""
    columns = [
        pa.array(["", "abc", None, "a text of twenty bytes"]),
        pa.array([1, -1, None, 2**40]),
    ]
    found = [int(each) for each in hashes(columns, KEYS, 4)]
    assert found == EXPECTED
    assert len(np.unique(hashes([pa.array(range(100_000))], KEYS, 100_000))) == 100_000


EXPECTED = [
    14618331076859698559,
    3712840504675261692,
    9258968378699017350,
    17100708556701902366,
]
