"""The flows of the examples describe what they say."""

import runpy
from pathlib import Path

from headrace.streams.launch import Launch, launching

FLOWS = Path(__file__).parents[2] / "examples" / "flows"


def test_large_orders_go_to_a_topic_of_their_own_and_broken_ones_to_another():
    with launching(Launch()) as launch:
        runpy.run_path(str(FLOWS / "large_orders.py"), run_name="__main__")
    (flow,) = launch.flows
    assert [output.name for output in flow.outputs] == [
        "large-orders",
        "broken-orders.dead-letters",
    ]
