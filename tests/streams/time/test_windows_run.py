"""Windows of a flow that runs on a real cluster."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.streams import Flow
from headrace.streams.running import CheckpointMismatch
from headrace.streams.session import stateful_session
from headrace.streams.state.inspecting import operators
from headrace.streams.time import Watermark
from headrace.streams.time.standing import moment_of, standing_of
from headrace.streams.windows import Window, tumbling
from tests.clusters import Cluster, on_one_cluster
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@on_one_cluster
def test_windows_go_on_after_a_restart_and_refuse_another_window(
    spark: "SparkSession", cluster: Cluster, tmp_path: Path, fresh_name: str
):
    topics = Topics(cluster.bootstrap)
    source, counts, late = (f"{fresh_name}-{each}" for each in ("in", "counts", "late"))

    def flow(kind: Window) -> Flow:
        made = Flow(fresh_name, settings=topics.settings(tmp_path), spark=spark)
        stream = made.stream(
            source, "n int, at timestamp", time="at", watermark=Watermark(out_of_order="0 s")
        )
        table = stream.where("n > 0").window(kind, late="side").agg(total="sum(n)")
        made.topic(late, table.late)
        made.topic(counts, table)
        return made

    def event(n: int, time: str) -> dict[str, object]:
        return {"n": n, "at": f"2026-01-01T{time}Z"}

    topics.write(source, event(1, "10:00:10"), event(2, "10:00:20"), event(0, "10:01:00"))
    report = flow(tumbling("1 minute")).run(once=True)
    assert {each.output: (each.read, each.written) for each in report.queries} == {
        counts: (3, 1),
        late: (3, 0),
    }
    topics.write(source, event(4, "10:00:30"), event(8, "10:01:30"), event(0, "10:02:00"))
    report = flow(tumbling("1 minute")).run(once=True)
    assert sum(each.late for each in report.queries) == 1
    (time,) = [each.time for each in report.queries if each.time is not None]
    assert (moment_of(time.watermark or 0), time.holding) == ("2026-01-01T10:02:00Z", f"{source}-0")
    (operator,) = operators(stateful_session(spark), str(tmp_path / fresh_name / counts / "spark"))
    assert standing_of(operator.memory) == time
    assert [value["total"] for _, value in topics.read(counts)] == [3, 8]  # type: ignore[index]
    assert [value["n"] for _, value in topics.read(late)] == [4]  # type: ignore[index]
    with pytest.raises(CheckpointMismatch, match="--rebuild"):
        flow(tumbling("2 minutes")).run(once=True)


def test_wrong_clocks_are_corrected_and_counted_in_a_run_and_in_a_batch(
    spark: "SparkSession", cluster: Cluster, tmp_path: Path, fresh_name: str
):
    topics = Topics(cluster.bootstrap)
    source, counts, hours = (f"{fresh_name}-{each}" for each in ("in", "counts", "hours"))
    flow = Flow(fresh_name, settings=topics.settings(tmp_path), spark=spark)
    told = flow.stream(source, "who string, o timestamp, s timestamp, r timestamp")
    rules = Watermark(out_of_order="0 s", by="who", max_ahead="1 day")
    events = told.corrected_time(
        occurred="o", sent="s", received="r", into="at", max_offset="2 hours", watermark=rules
    )
    table = events.where("who <> 'bob'").window(tumbling("1 minute")).agg(n="count(*)")
    flow.topic(counts, table)
    flow.topic(hours, table.changes().window(tumbling("1 hour")).agg(n="sum(n)"))

    def event(who: str, *clocks: str) -> dict[str, object]:
        return {"who": who, **dict(zip("osr", [f"{each}Z" for each in clocks], strict=True))}

    day = "2026-01-01T"
    topics.write(
        source,
        event("ada", f"{day}09:00:10", f"{day}09:00:20", f"{day}10:00:20"),
        event("ada", f"{day}09:00:30", f"{day}09:01:00", f"{day}10:01:00"),
        event("ada", f"{day}09:01:00", f"{day}09:01:00", f"{day}10:01:00"),
        event("bob", f"{day}10:02:00", f"{day}10:02:00", f"{day}10:02:00"),
        # A clock that is far off, and one that is right if it is not in the future.
        event("eve", "2020-01-01T00:00:00", "2020-01-01T00:00:00", f"{day}10:00:40"),
        event("eve", "2020-01-01T00:00:00", "2020-01-01T00:00:00", f"{day}10:01:40"),
        event("mal", "2031-01-01T00:00:00", "2031-01-01T00:00:00", "2031-01-01T00:00:00"),
    )
    query, behind = flow.run(once=True).queries
    assert (query.read, query.written, query.late, query.implausible) == (7, 1, 0, 3)
    assert query.time is not None
    assert [each.name for each in query.time.sources] == ["ada", "bob", "eve"]
    # Windows behind windows are held back by the same, and not by what is in between.
    assert behind.time is not None
    assert behind.time.holding == "ada"
    bounds = [(each.name, each.bound) for each in query.time.sources]
    assert [(each.name, each.bound) for each in behind.time.sources] == bounds
    assert (query.time.holding, moment_of(query.time.watermark or 0)) == ("ada", f"{day}10:01:00Z")
    assert [value["n"] for _, value in topics.read(counts)] == [3]  # type: ignore[index]
    rows = flow.batch().df(table).orderBy("window_start").collect()
    assert [(row.window_start.year, row.n) for row in rows] == [(2026, 3), (2026, 2), (2031, 1)]
