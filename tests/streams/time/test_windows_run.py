"""Windows of a flow that runs on a real cluster."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.streams import Flow
from headrace.streams.running import CheckpointMismatch
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
    (operator,) = operators(spark, str(tmp_path / fresh_name / counts / "spark"))
    assert standing_of(operator.memory) == time
    assert [value["total"] for _, value in topics.read(counts)] == [3, 8]  # type: ignore[index]
    assert [value["n"] for _, value in topics.read(late)] == [4]  # type: ignore[index]
    with pytest.raises(CheckpointMismatch, match="--rebuild"):
        flow(tumbling("2 minutes")).run(once=True)
