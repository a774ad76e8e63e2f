"""The examples of flows say what they promise to show."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from examples import event_time, joins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)


def test_a_processor_that_was_down_sees_a_spike_that_never_was(headrace_spark: "SparkSession"):
    by_event, by_processor = event_time.play(headrace_spark)
    assert set(by_event.values()) == {6, 7}
    assert by_event["12:01"] == 7
    assert by_processor == {"12:00": 6, "12:01": 6, "12:05": 24, "12:06": 7}
    assert sum(by_event.values()) == sum(by_processor.values())


def test_each_of_the_four_joins_finds_what_belongs_together(headrace_spark: "SparkSession"):
    said = joins.play(headrace_spark)
    assert {(row["query"], row.get("url")) for row in said["journeys"]} == {
        ("tent", "/tent"),
        ("boat", None),
    }
    assert [(row["name"], row["city"]) for row in said["visitors"]] == [("Ada", "London")]
    assert [row["tax"] for row in said["invoices"]] == [19, 16]
    assert [row["city"] for row in said["parcels"]] == ["London", "Paris"]
