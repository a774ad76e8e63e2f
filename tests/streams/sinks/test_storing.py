"""Flows into stores: what is described, what is refused, and what arrives."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.streams import Flow
from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.outputs import StoreOutput
from headrace.streams.sinks.contract import Batch
from headrace.streams.sinks.storing import StoreSink
from headrace.testing.store_contract import changed_rows
from headrace.views.stores import InvalidStore, PositionsLost, StoreUnreachable
from headrace.views.stores.sqlite import SqliteStore
from tests.clusters import Cluster, on_one_cluster
from tests.conftest import TopicFactory
from tests.streams.topics import Topics


def rows(path: Path, table: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return sorted(connection.execute(f"SELECT * FROM {table}").fetchall())
    finally:
        connection.close()


class TestDescribing:
    def test_a_store_is_named_by_a_url_and_a_table(self) -> None:
        flow = Flow("shop")
        orders = flow.table("orders", "id bigint, total double", key="id")
        flow.sink(orders, to="sqlite:///shop.db", table="orders")
        flow.sink("all", orders.upserts(), to="sqlite:///shop.db", dead_letters="refused")
        first, second = flow.outputs
        assert isinstance(first, StoreOutput)
        assert (first.name, first.table, first.key) == ("orders", "orders", ("id",))
        assert first.label == ("Sqlite orders", "by id")
        assert isinstance(second, StoreOutput)
        assert (second.name, second.table, second.key) == ("all", "all", ())
        assert second.label == ("Sqlite all", "added, refused rows to refused")
        assert "Sqlite orders" in str(flow)

    def test_a_stream_can_be_kept_by_a_key(self) -> None:
        flow = Flow("shop")
        clicks = flow.stream("clicks", "user string, url string")
        flow.sink(clicks, to="sqlite:///shop.db", table="last_click", key="user")
        (output,) = flow.outputs
        assert isinstance(output, StoreOutput)
        assert output.key == ("user",)
        with pytest.raises(UnknownColumn, match="did you mean user"):
            flow.sink(clicks, to="sqlite:///shop.db", table="other", key="usr")

    def test_what_makes_no_sense_is_refused(self) -> None:
        flow = Flow("shop")
        clicks = flow.stream("clicks", "user string, url string")
        with pytest.raises(InvalidFlow, match="goes somewhere"):
            flow.sink("clicks", clicks)
        with pytest.raises(InvalidFlow, match='table="orders"'):
            flow.sink(clicks, to="sqlite:///shop.db")
        with pytest.raises(InvalidStore, match="begins with one of"):
            flow.sink("clicks", clicks, to="oracle://host/db")
        with pytest.raises(InvalidStore, match=r"sqlite:///file\.db"):
            flow.sink("clicks", clicks, to="sqlite://")


class TestPlaces:
    def test_a_store_that_has_lost_batches_is_noticed(self, tmp_path: Path) -> None:
        sink = StoreSink(SqliteStore(str(tmp_path / "shop.db")), "people", ("id",))
        for number in (0, 1):
            batch = Batch("shop.people", number, 1)
            sink.begin(batch)
            sink.write(batch.place(0), iter([changed_rows([(number, "ann")])]))
        with pytest.raises(PositionsLost, match="at batch 3, but the store has only heard of"):
            sink.begin(Batch("shop.people", 3, 1))

    def test_a_store_that_is_away_is_said_to_be(self, tmp_path: Path) -> None:
        sink = StoreSink(SqliteStore(str(tmp_path / "nowhere" / "shop.db")), "people", ("id",))
        with pytest.raises(StoreUnreachable, match="unable to open"):
            sink.begin(Batch("shop.people", 0, 1))


@pytest.fixture
def topics(cluster: Cluster) -> Topics:
    return Topics(cluster.bootstrap)


class TestRunning:
    def test_tables_and_streams_arrive_and_go_on(
        self,
        topics: Topics,
        new_topic: TopicFactory,
        spark: SparkSession,
        tmp_path: Path,
        fresh_name: str,
    ) -> None:
        orders, refused, path = new_topic(2), new_topic(), tmp_path / "shop.db"

        def run() -> dict[str, int]:
            flow = Flow(fresh_name, settings=topics.settings(tmp_path), spark=spark)
            url = f"sqlite:///{path}?search=item"
            table = flow.table(orders, "id bigint, item string, price double", key="id")
            flow.sink(table.where("price < 100"), to=url, table="orders", dead_letters=refused)
            counts = table.group_by("item").agg(n="count(*)")
            flow.sink(counts, to=f"sqlite:///{path}", table="counts")
            report = flow.run(once=True)
            return {each.output: each.refused for each in report.queries}

        def write(*changes: tuple[int, Any]) -> None:
            values = [
                None if each is None else {"id": key, "item": each[0], "price": each[1]}
                for key, each in changes
            ]
            topics.write(orders, *values, keys=[str(key) for key, _ in changes])

        write((1, ("hat", 10.0)), (2, ("hat", 20.0)), (3, ("shoe", 30.0)))
        assert run() == {"orders": 0, "counts": 0}
        assert rows(path, "orders") == [(1, "hat", 10.0), (2, "hat", 20.0), (3, "shoe", 30.0)]
        assert rows(path, "counts") == [("hat", 2), ("shoe", 1)]
        connection = sqlite3.connect(path)
        connection.execute(
            "CREATE TRIGGER no BEFORE INSERT ON orders WHEN new.item = 'sock' "
            "BEGIN SELECT RAISE(ABORT, 'no socks'); END"
        )
        connection.close()
        write((1, None), (2, ("shoe", 200.0)), (4, ("shoe", 5.0)), (5, ("sock", 1.0)))
        assert run() == {"orders": 1, "counts": 0}
        assert rows(path, "orders") == [(3, "shoe", 30.0), (4, "shoe", 5.0)]
        assert rows(path, "counts") == [("shoe", 3), ("sock", 1)]
        assert [row[0] for row in rows(path, "orders_search")] == ["shoe", "shoe"]
        ((key, row),) = topics.read(refused)
        assert (key, row) == (
            '{"id":5}',
            {"id": 5, "item": "sock", "price": 1.0, "_deleted": False},
        )

    @on_one_cluster
    def test_a_key_of_one_large_partition_ends_as_it_was_written_last(
        self,
        topics: Topics,
        new_topic: TopicFactory,
        spark: SparkSession,
        tmp_path: Path,
        fresh_name: str,
    ) -> None:
        topic, path = new_topic(), tmp_path / "shop.db"
        values = [{"id": number % 1000, "n": number} for number in range(120_000)]
        topics.write(topic, *values, keys=[str(each["id"]) for each in values])
        flow = Flow(fresh_name, settings=topics.settings(tmp_path), spark=spark)
        table = flow.table(topic, "id bigint, n bigint", key="id")
        flow.sink(table, to=f"sqlite:///{path}", table="numbers")
        flow.run(once=True)
        assert rows(path, "numbers") == [(number, 119_000 + number) for number in range(1000)]
