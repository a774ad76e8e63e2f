"""What cannot be described for the real-time lane, and what is said then."""

from typing import Any

import pytest

from headrace.streams import Flow, InvalidFlow
from headrace.streams.realtime.cores import compare_cores

ORDER = "customer string, price double"


def test_a_stateless_flow_of_expressions_can_ask_for_it_and_says_what_that_means():
    flow = Flow("shop")
    orders = flow.stream("orders", ORDER, include=["timestamp", "key"])
    flow.topic("large", orders.where("price > 10"), key="customer", trigger="realtime")
    assert "topic large  key customer, in real time, AT LEAST ONCE" in str(flow)


def test_there_is_one_such_trigger():
    flow = Flow("shop")
    with pytest.raises(InvalidFlow, match=r"no trigger='real-time'; did you mean realtime\?"):
        flow.topic("large", flow.stream("orders", ORDER), trigger="real-time")


@pytest.mark.parametrize(
    ("reading", "complaint"),
    [
        ({"format": "debezium"}, "has the format debezium; there are json, text, raw"),
        ({"dead_letters": "bad"}, "has dead_letters; without them"),
        ({"on_error": "skip"}, 'on_error="skip", but nobody would count'),
        ({"on_gap": "skip"}, 'on_gap="skip", but nobody would count'),
        ({"max_records_per_batch": 5}, "has max_records_per_batch, which is for batches"),
        ({"options": {"epoch": "ms"}}, "has epoch, which is for batches"),
    ],
)
def test_what_the_lane_cannot_read_is_named_with_what_to_change(
    reading: dict[str, Any], complaint: str
):
    flow = Flow("shop")
    orders = flow.stream("orders", ORDER, **reading)
    with pytest.raises(InvalidFlow) as raised:
        flow.topic("large", orders, trigger="realtime")
    assert complaint in str(raised.value)
    assert "leave the trigger out" in str(raised.value)
    assert flow.outputs == ()


def test_a_pattern_has_no_positions_of_its_own():
    flow = Flow("shop")
    orders = flow.stream(pattern="orders.*", schema=ORDER, start="2026-11-16T08:00:00+00:00")
    with pytest.raises(InvalidFlow, match="a pattern starts from earliest or latest"):
        flow.topic("large", orders, trigger="realtime")


def test_tables_and_timestamps_are_refused_together():
    flow = Flow("shop")
    users = flow.table("users", "id int, at timestamp", key="id")
    with pytest.raises(InvalidFlow, match=r"table users is a table; .*; timestamp= is given"):
        flow.topic("people", users, timestamp="at", trigger="realtime")


def test_a_core_is_needed_for_every_partition_and_one_for_batches():
    flow = Flow("shop")
    flow.topic("large", flow.stream("orders", ORDER), trigger="realtime")
    compare_cores(flow.outputs, {}, {"orders": 2}, 2)
    with pytest.raises(InvalidFlow, match=r"read 3 partitions here .* Spark has 2"):
        compare_cores(flow.outputs, {"orders": "orders.v2"}, {"orders.v2": 3}, 2)
    flow.topic("all", flow.stream("orders", ORDER))
    with pytest.raises(InvalidFlow, match=r"in batches need one more.*local\[3\]"):
        compare_cores(flow.outputs, {}, {"orders": 2}, 2)
