"""What a flow keeps, by `headrace state show` and as a DataFrame."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.main import app
from headrace.streams import Flow
from headrace.streams.state import StateError
from headrace.streams.time import Watermark
from headrace.streams.windows import tumbling
from tests.clusters import Cluster
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def clicks(spark: "SparkSession", cluster: Cluster, tmp_path: Path, fresh_name: str) -> Flow:
    """A flow with two windows open, and one output without state."""
    topics = Topics(cluster.bootstrap)
    flow = Flow(fresh_name, settings=topics.settings(tmp_path), spark=spark)
    source, minutes, copy = (f"{fresh_name}-{each}" for each in ("in", "minutes", "copy"))
    stream = flow.stream(
        source,
        "user string, n int, at timestamp",
        time="at",
        watermark=Watermark(out_of_order="10 seconds"),
    )
    windows = stream.window(tumbling("1 minute"), by="user")
    flow.topic(minutes, windows.agg(n="count(*)", total="sum(n)"), output="minutes")
    flow.topic(copy, stream, output="copy")
    times = {"ada": "10:00:30", "ben": "10:02:10", "cleo": "10:02:00"}
    topics.write(
        source, *({"user": user, "n": 5, "at": f"2026-01-01T{at}Z"} for user, at in times.items())
    )
    flow.run(once=True)
    return flow


def test_operators_keys_sizes_values_and_watermarks_are_shown(clicks: Flow, tmp_path: Path):
    def show(*arguments: str) -> Result:
        words = ("state", "show", clicks.name, "--checkpoints", str(tmp_path), *arguments)
        return CliRunner().invoke(app, words)

    result = show("--json")
    assert result.exit_code == 0, result.stderr
    (operator,) = json.loads(result.stdout)
    assert (operator["output"], operator["operator"]) == ("minutes", "window")
    assert operator["watermark"] == "2026-01-01 10:02:00Z"
    assert operator["held_by"] == operator["sources"][0]["source"]
    tables = {each["table"]: each for each in operator["tables"]}
    assert (tables["panes"]["key"], tables["panes"]["rows"]) == (["user"], 2)
    assert tables["panes"]["bytes"] > 0

    lines = [line.split() for line in show().stdout.splitlines()]
    assert lines[0][:5] == ["OUTPUT", "OPERATOR", "TABLE", "KEY", "ROWS"]
    assert lines[1][:5] == ["minutes", "window", "panes", "user", "2"]

    (panes,) = json.loads(show("--table", "panes", "--key", "cleo", "--json").stdout)
    (row,) = panes["rows"]
    assert (row["user"], row["_window_at"], row["Count().0"]) == ("cleo", "2026-01-01 10:02:00Z", 1)
    assert "the first 1 rows" in show("--table", "panes", "--limit", "1").stderr
    assert "window, panes: no rows" in show("--operator", "minutes", "--key", "ada").stderr
    for words, said in (
        (("--operator", "minuts"), "did you mean minutes"),
        (("--table", "pane"), "did you mean panes"),
        (("--table", "panes", "--key", "usr=ada"), "no rows"),
    ):
        assert said in show(*words).stderr


def test_rows_are_a_data_frame_and_what_is_not_there_is_refused(clicks: Flow):
    rows = clicks.state("panes").selectExpr("user", "`Sum(n).0` as n").collect()
    assert sorted((row.user, row.n) for row in rows) == [("ben", 1), ("cleo", 1)]
    assert clicks.state("panes", operator="minutes.window").count() == 2
    with pytest.raises(StateError, match="did you mean panes"):
        clicks.state("pane")
    with pytest.raises(StateError, match="There is no operator copy"):
        clicks.state("panes", operator="copy")
