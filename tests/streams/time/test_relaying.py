"""What is told of time behind the source: by a step that looks at rows, and by an operator."""

from typing import Any

import pyarrow as pa

from headrace.streams.plan import CONTROL, TIME_SOURCE
from headrace.streams.state.blobs import to_blob
from headrace.streams.state.processor import STATISTICS, STATISTICS_SCHEMA
from headrace.streams.time import Watermark
from headrace.streams.time.control import Observation
from headrace.streams.time.observed import _Step
from headrace.streams.time.relaying import _unpacking
from headrace.streams.time.standing import Memory

MEMORY = Memory(7, 100, {"input/clicks-0": (60, 2), "input/clicks-1": (100, 7)}, patience=5)


def passed(rules: Watermark, *batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a step lets through of the rows of a task, whose clock is 100."""
    clock = {CONTROL: Observation(100).to_bytes()}
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("at", pa.int64()),
            (CONTROL, pa.binary()),
            (TIME_SOURCE, pa.string()),
            ("_time_by", pa.string()),
            ("_time_until", pa.int64()),
            ("_implausible", pa.int64()),
        ]
    )
    first, *rest = batches
    given = [pa.RecordBatch.from_pylist(each, schema) for each in ([clock, *first], *rest)]
    step = _Step("at", rules, ("n", "at", CONTROL, "_implausible"))
    found = list(step.function()(given))
    return pa.Table.from_batches(found).to_pylist() if found else []


def test_a_step_lets_rows_through_and_tells_of_their_time_at_the_end():
    rows = passed(
        Watermark(max_ahead="1 ms"),
        [{"n": 1, "at": 50, TIME_SOURCE: "t-0"}, {"n": 2, "at": 70, TIME_SOURCE: "t-1"}],
        [{"n": 3, "at": 60, TIME_SOURCE: "t-0"}, {"n": 4, "at": 10**9, TIME_SOURCE: "t-0"}],
    )
    assert [each["n"] for each in rows] == [1, 2, 3, 4, None]
    assert [each["_implausible"] for each in rows] == [None, None, None, None, 1]
    told = Observation.from_bytes(rows[-1][CONTROL])
    assert told == Observation(100, {"t-0": 60, "t-1": 70}, {}, 1)


def test_a_step_tells_of_producers_and_their_promises():
    rows = passed(
        Watermark(by="upper(who)", until="if(bye, 999, null)"),
        [
            {"at": 50, TIME_SOURCE: "t-0", "_time_by": "ADA", "_time_until": 999},
            {"at": 40, TIME_SOURCE: "t-0"},
        ],
    )
    told = Observation.from_bytes(rows[-1][CONTROL])
    assert told == Observation(100, {"ADA": 50, "t-0": 40}, {"ADA": 999})


def test_a_task_without_rows_tells_its_clock_and_one_without_anything_nothing():
    (row,) = passed(Watermark(), [])
    assert Observation.from_bytes(row[CONTROL]) == Observation(100)
    assert list(_Step("at", Watermark(), ("n",)).function()([])) == []


def test_an_operator_tells_how_far_each_bucket_has_come_but_for_its_corrections():
    said = pa.table({"n": pa.array([5, 6])})
    statistics = pa.Table.from_pylist(
        [{"bucket": 3, "watermark": 100, "clock": 7, "memory": MEMORY.written()}],
        schema=STATISTICS_SCHEMA,
    )
    early = pa.Table.from_pylist([{"bucket": 4, "clock": 7}], schema=STATISTICS_SCHEMA)
    untold = pa.Table.from_pylist([{"bucket": 5, "watermark": 1}], schema=STATISTICS_SCHEMA)
    tagged = pa.RecordBatch.from_pydict(
        {
            "output": ["main", STATISTICS, STATISTICS, STATISTICS, "late"],
            "rows": [to_blob(each) for each in (said, statistics, early, untold, said)],
        }
    )
    schema = said.schema.append(pa.field(CONTROL, pa.binary()))
    unpack = _unpacking("main", "window", schema, 10)
    rows = pa.Table.from_batches(list(unpack([tagged]))).to_pylist()
    assert [each["n"] for each in rows] == [5, 6, None, None]
    assert [Observation.from_bytes(each[CONTROL]) for each in rows[2:]] == [
        Observation(
            7,
            promises={"window/3": 90},
            origins={"clicks-1": (100, 7, False), "clicks-0": (60, 2, True)},
        ),
        Observation(7),
    ]
