import json

import pytest
from rich.console import Console

from benchmarks.report import Better, Result, Row, json_line, publish, table

THROUGHPUT = Row("produce_100B", "msg/s", Better.HIGHER, "produce", "Headrace", "Kafka", 1.0)
LATENCY = Row("sync_p99", "ms", Better.LOWER, "p99", "Headrace", "Kafka", 0.5)
SHOWN_ONLY = Row("produce_100B_fsync", "msg/s", Better.HIGHER, "produce", "Headrace", "Kafka")


def test_ratio_is_headrace_over_peer_whichever_way_is_better():
    assert Result(THROUGHPUT, 1_500_000, 1_000_000).ratio == 1.5
    assert Result(LATENCY, 0.2, 0.8).ratio == 0.25


@pytest.mark.parametrize(
    ("row", "headrace", "reached"),
    [
        (THROUGHPUT, 1.0, True),
        (THROUGHPUT, 0.99, False),
        (LATENCY, 0.5, True),
        (LATENCY, 0.51, False),
        (SHOWN_ONLY, 0.1, None),
    ],
)
def test_target_is_a_floor_if_higher_is_better_and_a_ceiling_if_lower_is(row, headrace, reached):
    assert Result(row, headrace, 1.0).reached is reached


def test_json_line_has_the_form_that_programs_read():
    line = json_line("broker", [Result(THROUGHPUT, 1_234_567.8, 1_000_000), Result(LATENCY, 1, 3)])
    assert "\n" not in line
    assert json.loads(line) == {
        "benchmark": "broker",
        "results": [
            {
                "metric": "produce_100B",
                "unit": "msg/s",
                "headrace": 1_234_600.0,
                "peer": 1_000_000.0,
                "peer_name": "Kafka",
                "ratio": 1.2346,
                "better": "higher",
            },
            {
                "metric": "sync_p99",
                "unit": "ms",
                "headrace": 1.0,
                "peer": 3.0,
                "peer_name": "Kafka",
                "ratio": 0.33333,
                "better": "lower",
            },
        ],
    }


def test_json_is_the_last_line_that_is_printed(capsys):
    publish("broker", [Result(THROUGHPUT, 2.0, 1.0)])
    last = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(last)["results"][0]["ratio"] == 2.0


def test_table_says_what_was_reached_and_what_was_missed():
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table([Result(THROUGHPUT, 2.0, 1.0), Result(LATENCY, 2.0, 1.0)]))
    _, reached, missed = [line for line in capture.get().splitlines() if "│" in line or "┃" in line]
    assert "produce_100B" in reached
    assert "reached" in reached
    assert "≤ 0.5" in missed
    assert "missed" in missed
