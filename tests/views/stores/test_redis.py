"""Redis keeps the contract, also when it is killed and starts again from its log."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.streams.sinks.contract import Batch
from headrace.streams.sinks.storing import StoreSink
from headrace.testing.store_contract import NumberedStore, StoreContract, Writer, people
from headrace.views.stores.errors import StoreRefused, StoreUnreachable
from headrace.views.stores.redis import RedisStore
from headrace.views.stores.sessions import close_idle
from tests.views.redis_server import RedisServer

redis = pytest.importorskip("redis")

_numbers = itertools.count()


class RedisTarget(NumberedStore):
    """A database of a test's own on a shared server."""

    store: RedisStore

    def __init__(self, url: str) -> None:
        self.store = RedisStore(url)
        self.client = redis.Redis.from_url(url, decode_responses=True, encoding_errors="replace")

    def contents(self, table: str) -> list[dict[str, Any]]:
        if self.client.type(table) == "stream":
            return [fields for _, fields in self.client.xrange(table)]
        keys = list(self.client.scan_iter(f"{table}:*", count=1000))
        pipeline = self.client.pipeline()
        for key in keys:
            pipeline.hgetall(key)
        return list(pipeline.execute())

    def limit(self, table: str) -> bool:
        return False

    def steps(self) -> list[str]:
        return [
            "redis.connection:Connection.send_packed_command",
            "redis.connection:Connection.read_response",
        ]


@pytest.fixture
def target(redis_server: RedisServer) -> Iterator[RedisTarget]:
    found = RedisTarget(f"{redis_server.url}/{next(_numbers)}")
    yield found
    found.client.close()
    close_idle()


class TestRedis(StoreContract):
    @pytest.fixture
    def target(self, redis_server: RedisServer) -> Iterator[RedisTarget]:
        found = RedisTarget(f"{redis_server.url}/{next(_numbers)}")
        yield found
        found.client.close()
        close_idle()


def test_rows_are_hashes_of_texts(target: RedisTarget) -> None:
    TestRedis().test_nulls_and_every_type_are_kept(target)
    row = target.client.hgetall("typed:2")
    assert row["at"] == "1970-01-01T00:00:00.000000Z"
    assert (row["price"], row["whole"], row["yes"]) == (
        "-99999999999999.9999",
        "9223372036854775807",
        "false",
    )
    assert (row["tags"], row["where"], row["wall"]) == (
        "[]",
        '{"x":null,"y":0.0}',
        "1969-12-31T23:59:59.000000",
    )
    raw = redis.Redis.from_url(target.store.url)
    assert raw.hget("typed:1", "raw") == b"\x00\xff'\\"
    assert target.client.hgetall("typed:3") == {"id": "3", "text": ""}


def test_keys_of_several_columns_are_not_mixed_up(target: RedisTarget) -> None:
    import pyarrow as pa

    rows = pa.RecordBatch.from_pydict({"a": ["x:y", "x"], "b": ["z", "y:z"], "n": [1, 2]})
    batch = Batch("q", 0, 1)
    sink = StoreSink(target.store, "pairs", ("a", "b"))
    sink.begin(batch)
    sink.write(batch.place(0), iter([rows]))
    assert target.client.hget("pairs:x%3Ay:z", "n") == "1"
    assert target.client.hget("pairs:x:y%3Az", "n") == "2"


def test_many_rows_are_several_scripts_and_one_transaction(target: RedisTarget) -> None:
    writer = Writer(target.store)
    writer.write([(number, f"name {number}") for number in range(50_000)])
    writer.write([(number, None) for number in range(1, 50_000)])
    assert people(target) == {0: "name 0"}


def test_something_else_of_that_name_is_left_alone(target: RedisTarget) -> None:
    target.client.set("numbers", "mine")
    batch = Batch("q", 0, 1)
    target.sink.begin(batch)
    with pytest.raises(StoreRefused, match="has a string called numbers"):
        target.sink.write(batch.place(0), iter([target.rows([1])]))
    assert target.client.get("numbers") == "mine"


def test_a_server_that_is_killed_has_all_that_it_acknowledged() -> None:
    with RedisServer() as server:
        target = RedisTarget(server.url)
        writer = Writer(target.store)
        writer.write([(1, "ann"), (2, "bob")])
        server.kill()
        with pytest.raises(StoreUnreachable):
            writer.write([(2, None)])
        server.start()
        writer.write([(2, None)])
        assert people(target) == {1: "ann"}
        target.client.close()
        close_idle()


def test_a_full_server_is_waited_for(target: RedisTarget) -> None:
    writer = Writer(target.store)
    writer.write([(1, "ann")])
    target.client.config_set("maxmemory", "1")
    try:
        with pytest.raises(StoreUnreachable, match="takes nothing now"):
            writer.write([(2, "bob")])
    finally:
        target.client.config_set("maxmemory", "0")
    writer.write([(2, "bob")])
    assert people(target) == {1: "ann", 2: "bob"}
