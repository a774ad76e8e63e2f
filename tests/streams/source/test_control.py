"""What tasks of the source tell of time, without a cluster."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from headrace.kafka import Partition
from headrace.streams.plan import CONTROL, PROCESSED, TIME_SOURCE
from headrace.streams.source.options import parse_options
from headrace.streams.source.schema import judging_schema, source_schema
from headrace.streams.time.control import Observation
from headrace.testing.harness.events import SentRecord
from headrace.testing.harness.script import Script, unpacked
from headrace.testing.harness.scripted_reading import ScriptedReader


def read(*values: bytes, clock: int = 60_000, **options: str) -> list[dict[str, Any]]:
    given = {"topics": "t", "format": "json", "schema": "at timestamp, n int", **options}
    script = Script()
    for number, value in enumerate(values):
        script.add(Partition("t", 1), SentRecord(number, 0, None, value))
    sent = [unpacked(each) for each in script.take(clock)]
    assert {each.clock_ms for each in sent} == {clock}
    records = {each.range: each.records for each in sent if each.records.num_rows}
    parsed = parse_options(given)
    schema = source_schema(parsed)
    reader = ScriptedReader(parsed, schema, judging_schema(parsed, schema), records)
    batches = list(reader.read(list(records), clock))
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def test_a_task_ends_with_what_its_rows_tell_of_time():
    rows = read(
        b'{"at": "1970-01-01T00:00:09Z", "n": 1}', b'{"at": "1970-01-01T00:00:05Z"}', time="at"
    )
    assert [each["n"] for each in rows] == [1, None, None]
    assert [each[CONTROL] is None for each in rows] == [True, True, False]
    assert Observation.from_bytes(rows[-1][CONTROL]) == Observation(60_000_000, {"t-1": 9_000_000})


def test_a_task_without_records_tells_what_time_it_is():
    (row,) = read(time="at")
    assert Observation.from_bytes(row[CONTROL]) == Observation(60_000_000)


def test_what_was_skipped_is_told_beside():
    rows = read(
        b"no",
        b'{"at": "2031-01-01T00:00:00Z"}',
        time="at",
        time_max_ahead_ms="1000",
        on_error="skip",
        count_skipped="true",
    )
    assert [each["_rejected"] for each in rows] == [None, 1, None]
    assert [each["_implausible"] for each in rows] == [None, 1, None]
    assert Observation.from_bytes(rows[-1][CONTROL]).implausible == 1


def test_rows_have_the_clock_of_their_batch_where_time_is_when_they_are_read():
    rows = read(b'{"n": 1}', time_from="clock")
    assert rows[0][PROCESSED] == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    told = Observation.from_bytes(rows[1][CONTROL])
    assert told == Observation(60_000_000, {PROCESSED: 60_000_000})
    assert read(time_from="clock")[0][CONTROL] == rows[1][CONTROL]


def test_rows_name_their_source_where_time_is_observed_behind_them():
    control, row = read(b'{"n": 1}', time_from="rows")
    assert Observation.from_bytes(control[CONTROL]) == Observation(60_000_000)
    assert (row["n"], row[TIME_SOURCE], row[CONTROL]) == (1, "t-1", None)


def test_without_a_time_nothing_is_told():
    assert read() == []
