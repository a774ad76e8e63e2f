"""Flows that run: from topic to topic, through failures, edits and ends."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.streams import Flow, InvalidFlow, UnknownColumn
from headrace.streams.launch import Launch
from headrace.streams.running import (
    CheckpointMismatch,
    FlowAlreadyRunning,
    FlowRun,
    QueryGivenUp,
    QueryState,
    run_all,
)
from tests.clusters import Cluster, on_one_cluster
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.conftest import TopicFactory

ORDER = "customer string, price double"


@pytest.fixture
def topics(cluster: Cluster) -> Topics:
    return Topics(cluster.bootstrap)


@pytest.fixture
def name(fresh_name: str) -> str:
    return fresh_name


def wait_until(condition: Callable[[], bool], seconds: float = 90) -> None:
    tick = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        tick.wait(0.05)
    raise AssertionError("it did not happen in time")


def large_orders(flow: Flow, source: str, target: str) -> None:
    orders = flow.stream(source, ORDER, dead_letters=f"{target}-bad")
    chosen = orders.where("price >= 10").with_columns(cents="cast(price * 100 as long)")
    flow.topic(target, chosen, key="customer")


def test_a_flow_reads_what_is_there_once(
    spark: "SparkSession", cluster: Cluster, new_topic: "TopicFactory", tmp_path: Path, name: str
):
    source, target = new_topic(2), new_topic(2)
    topics = Topics(cluster.bootstrap)
    flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
    large_orders(flow, source, target)
    topics.write(source, {"customer": "ada", "price": 12.5}, {"customer": "bob", "price": 3}, b"?")

    report = flow.run(once=True)
    assert [each.state for each in report.queries] == [QueryState.FINISHED] * 2
    written = [("ada", {"customer": "ada", "price": 12.5, "cents": 1250})]
    assert topics.read(target) == written

    topics.write(source, {"customer": "eve", "price": 99})
    assert flow.run(once=True).queries[0].read == 1
    assert sorted(topics.read(target), key=str) == [
        *written,
        ("eve", {"customer": "eve", "price": 99.0, "cents": 9900}),
    ]


def test_a_running_flow_follows_its_topic_and_ends_when_asked(
    spark: "SparkSession", topics: Topics, tmp_path: Path, name: str
):
    topics.write(f"{name}-in", {"customer": "ada", "price": 12.5})
    flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
    flow.topic(f"{name}-out", flow.stream(f"{name}-in", ORDER))
    with flow.start() as run:
        wait_until(lambda: run.progress[0].written == 1)
        with pytest.raises(FlowAlreadyRunning):
            flow.start()
        topics.write(f"{name}-in", {"customer": "bob", "price": 1})
        wait_until(lambda: run.progress[0].written == 2)
    (query,) = run.progress
    assert (query.state, query.read, query.restarts) == (QueryState.STOPPED, 2, 0)
    assert len(topics.read(f"{name}-out")) == 2


@on_one_cluster
def test_a_poison_batch_is_given_up_and_the_other_query_goes_on(
    spark: "SparkSession", topics: Topics, tmp_path: Path, name: str
):
    from pyspark.sql.functions import udf

    @udf("double", useArrow=False)
    def inverse(price):
        return 1 / price

    topics.write(f"{name}-in", {"customer": "ada", "price": 4}, {"customer": "bob", "price": 0})
    flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
    orders = flow.stream(f"{name}-in", ORDER)
    flow.topic(f"{name}-bad", orders.with_columns(inverse=inverse("price")))
    flow.topic(f"{name}-good", orders)
    said: list[str] = []
    run = FlowRun(flow, once=True, tell=said.append).start()
    with pytest.raises(QueryGivenUp) as raised:
        run.wait()
    message = str(raised.value)
    assert f"{name}.{name}-bad is given up after 2 tries: ZeroDivisionError" in message
    assert f"in inverse, {__file__} line" in message
    assert f"batch 0 reads {name}-in-0 offsets 0 to 1" in message
    # On a busy machine Spark's own processes may be too slow once or twice, which is no try.
    assert len([line for line in said if "ZeroDivisionError" in line]) == 2
    assert len(topics.read(f"{name}-good")) == 2
    assert topics.read(f"{name}-bad") == []


@on_one_cluster
def test_an_edit_that_the_state_cannot_follow_is_refused(
    spark: "SparkSession", topics: Topics, tmp_path: Path, name: str
):
    def counting(column: str) -> Flow:
        def count(rows: "DataFrame") -> "DataFrame":
            return rows.groupBy(column).count()

        flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
        flow.topic(f"{name}-out", flow.stream(f"{name}-in", ORDER).pipe(count), key=column)
        return flow

    topics.write(f"{name}-in", {"customer": "ada", "price": 4}, {"customer": "ada", "price": 5})
    counting("customer").run(once=True)
    assert topics.read(f"{name}-out") == [("ada", {"customer": "ada", "count": 2})]
    with pytest.raises(
        CheckpointMismatch, match=r"keeps Aggregate by price double.*--rebuild as NAME"
    ):
        counting("price").run(once=True)
    topics.write(f"{name}-in", {"customer": "ada", "price": 4})
    counting("customer").run(once=True)
    assert topics.read(f"{name}-out")[-1] == ("ada", {"customer": "ada", "count": 3})


@on_one_cluster
def test_a_query_keeps_the_shuffle_partitions_that_it_began_with(
    spark: "SparkSession", topics: Topics, tmp_path: Path, name: str
):
    def counted() -> None:
        flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
        rows = flow.stream(f"{name}-in", ORDER).pipe(lambda df: df.groupBy("customer").count())
        flow.topic(f"{name}-out", rows, key="customer")
        flow.run(once=True)

    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert before is not None
    topics.write(f"{name}-in", *({"customer": each, "price": 1} for each in "abcdef"))
    counted()
    try:
        spark.conf.set("spark.sql.shuffle.partitions", str(int(before) + 1))
        topics.write(f"{name}-in", *({"customer": each, "price": 1} for each in "abcdef"))
        counted()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    last = dict(topics.read(f"{name}-out"))
    assert last == {each: {"customer": each, "count": 2} for each in "abcdef"}


@on_one_cluster
def test_what_spark_does_not_understand_is_said_before_anything_runs(
    spark: "SparkSession", topics: Topics, tmp_path: Path, name: str
):
    topics.write(f"{name}-in", {})
    flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
    orders = flow.stream(f"{name}-in", ORDER)
    with pytest.raises(UnknownColumn, match=r"^where prise > 3: .* prise; did you mean price\?"):
        _ = orders.where("prise > 3").df
    with pytest.raises(InvalidFlow, match=r"^where price >: "):
        _ = orders.where("price >").df
    with pytest.raises(InvalidFlow, match=r"pipe: <lambda> returned 7; it must return"):
        _ = orders.pipe(lambda df: 7).df  # type: ignore[arg-type, return-value]


@on_one_cluster
def test_a_topic_that_is_not_there_is_named_with_a_suggestion(
    spark: "SparkSession", topics: Topics, tmp_path: Path, name: str
):
    topics.write(f"{name}-in", {})
    flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
    flow.topic(f"{name}-out", flow.stream(f"{name}-inn", ORDER))
    with pytest.raises(InvalidFlow, match=rf"{name}-inn, which does not .*did you mean {name}-in"):
        flow.run(once=True)
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_its_latest_rows_and_tells_its_changes(
    spark: "SparkSession", topics: Topics, tmp_path: Path, name: str
):
    rows = [{"id": 1, "age": 17}, {"id": 2, "age": 40}, {"id": 1, "age": 18}, None]
    topics.write(f"{name}-in", *rows, keys=["1", "2", "1", "2"])
    flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
    users = flow.table(f"{name}-in", "id int, age int", key="id")
    flow.topic(f"{name}-out", users.where("age >= 18"))

    assert [row.asDict() for row in flow.batch().df(users).collect()] == [{"id": 1, "age": 18}]
    flow.run(once=True)
    assert topics.read(f"{name}-out") == [
        ("1", None),
        ("2", {"id": 2, "age": 40}),
        ("1", {"id": 1, "age": 18}),
        ("2", None),
    ]


@on_one_cluster
def test_a_table_rejects_what_belongs_to_no_key(
    spark: "SparkSession", topics: Topics, tmp_path: Path, name: str
):
    rows = [{"id": 1, "age": 17}, {"age": 40}, {"age": 18}, None, {"id": 3, "age": "old"}]
    topics.write(f"{name}-in", *rows, keys=["1", "2", None, "1", "3"])
    flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
    users = flow.table(f"{name}-in", "id int, age int", key="id", dead_letters=f"{name}-bad")
    flow.topic(f"{name}-out", users)
    report = flow.run(once=True)
    assert topics.read(f"{name}-out") == [
        ("1", {"id": 1, "age": 17}),
        ("2", {"id": 2, "age": 40}),
        ("1", None),
    ]
    assert topics.read(f"{name}-bad") == [(None, {"age": 18}), ("3", {"id": 3, "age": "old"})]
    written, letters = report.queries
    assert (written.read, written.rejected, written.lost) == (3, 2, 0)
    assert (letters.written, letters.rejected) == (2, 0)
    assert flow.batch().df(users).collect() == [(2, 40)]


@on_one_cluster
def test_what_is_skipped_is_counted_once_though_its_batch_is_repeated(
    spark: "SparkSession", topics: Topics, tmp_path: Path, name: str
):
    from pyspark.sql.functions import udf

    failed = tmp_path / "failed"

    @udf("double", useArrow=False)
    def fails_once(price):
        if not failed.exists():
            failed.touch()
            raise ValueError("not yet")
        return price

    values = [{"customer": "ada", "price": 4}, b"?", {"customer": 7}, b"", {"customer": "bob"}]
    topics.write(f"{name}-in", *values)
    flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
    orders = flow.stream(f"{name}-in", f"{ORDER} not null", on_error="skip", on_gap="skip")

    def twice(rows: "DataFrame") -> "DataFrame":
        return rows.union(rows)

    flow.topic(f"{name}-out", orders.with_columns(price=fails_once("price")))
    flow.topic(f"{name}-twice", orders.pipe(twice))
    once, doubled = flow.run(once=True).queries
    assert (once.restarts, once.read, once.written, once.rejected) == (1, 1, 1, 4)
    assert doubled.written == 2


@on_one_cluster
def test_a_batch_is_the_same_code_over_a_range(
    spark: "SparkSession", topics: Topics, tmp_path: Path, name: str
):
    topics.write(f"{name}-in", *({"customer": "ada", "price": price} for price in range(20)))
    flow = Flow(name, settings=topics.settings(tmp_path), spark=spark)
    orders = flow.stream(f"{name}-in", ORDER).where("price >= 10")
    flow.topic(f"{name}-out", orders, key="customer", headers={"price": "price"})
    part = flow.batch(end={f"{name}-in": {0: 12}})
    assert [row.price for row in part.df(orders).collect()] == [10.0, 11.0]
    (first, _) = part.records(f"{name}-out").collect()
    assert (bytes(first.key), first.headers[0].key) == (b"ada", "price")
    with pytest.raises(InvalidFlow, match=f"did you mean {name}-out"):
        part.records(f"{name}-ou")


@on_one_cluster
def test_several_flows_run_side_by_side_with_metrics(
    spark: "SparkSession",
    topics: Topics,
    tmp_path: Path,
    name: str,
    capsys: pytest.CaptureFixture[str],
):
    topics.write(f"{name}-in", {"customer": "ada", "price": 4})
    settings = topics.settings(tmp_path, metrics="127.0.0.1:0")
    flows = [Flow(f"{name}-{each}", settings=settings, spark=spark) for each in "ab"]
    for flow in flows:
        flow.topic(f"{flow.name}-out", flow.stream(f"{name}-in", ORDER))
    reports = run_all(flows, Launch(once=True, given=settings))
    assert [report.written for report in reports] == [1, 1]
    said = capsys.readouterr().err
    assert "metrics at http://127.0.0.1:" in said
    assert f"{name}-a.{name}-a-out: finished, 1 rows read, 1 written" in said
