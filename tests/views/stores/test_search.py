"""OpenSearch keeps the contract, with versions in place of transactions."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from headrace.streams.sinks.contract import Batch
from headrace.streams.sinks.storing import StoreSink
from headrace.testing.store_contract import (
    NumberedStore,
    StoreContract,
    Writer,
    changed_rows,
    people,
)
from headrace.views.stores import Lane, Position, Shape
from headrace.views.stores.errors import ColumnsRefused, RowRefused, StoreRefused, StoreUnreachable
from headrace.views.stores.search import SearchStore
from headrace.views.stores.sessions import close_idle
from headrace.views.stores.staging import Staged
from tests.views.stores.search_server import SearchServer, unavailable


@pytest.fixture(scope="module")
def server() -> Iterator[SearchServer]:
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    with SearchServer() as started:
        yield started


class SearchTarget(NumberedStore):
    """The indexes of a shared node, which are removed before a test."""

    store: SearchStore

    def __init__(self, server: SearchServer) -> None:
        self.store = SearchStore(server.url)
        self._address = server.url.replace("opensearch://", "http://")
        self.ask("DELETE", "/*")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self._address}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def contents(self, table: str) -> list[dict[str, Any]]:
        try:
            self.ask("POST", f"/{table}/_refresh")
            found = self.ask("GET", f"/{table}/_search?size=10000")
        except urllib.error.HTTPError:
            return []
        return [each["_source"] for each in found["hits"]["hits"]]

    def limit(self, table: str) -> bool:
        return False

    def steps(self) -> list[str]:
        return ["headrace.views.stores.search:SearchSession._ask"]


@pytest.fixture
def target(server: SearchServer) -> Iterator[SearchTarget]:
    yield SearchTarget(server)
    close_idle()


class TestSearch(StoreContract):
    atomic = False
    seeds = range(2)
    killed_batches = 1

    @pytest.fixture
    def target(self, server: SearchServer) -> Iterator[SearchTarget]:
        yield SearchTarget(server)
        close_idle()


def test_rows_are_found_by_their_words(target: SearchTarget) -> None:
    writer = Writer(target.store)
    writer.write([(1, "blue shoes"), (2, "red hat")])
    writer.write([(1, None), (2, "red shoes")])
    found = target.ask("GET", "/people/_search?q=name:shoes")
    assert [each["_source"]["id"] for each in found["hits"]["hits"]] == [2]


def test_an_older_version_never_replaces_a_newer_one(target: SearchTarget) -> None:
    """Also if whoever has it does not know of any position."""
    session = target.store.session()
    rows = changed_rows([(1, "new"), (2, "new")])
    shape = Shape("people", rows.schema.remove(2), ("id",))
    session.prepare(shape)

    def apply(lane: str, position: int, changes: list[tuple[int, str | None]]) -> None:
        claim = session.claim(Lane("writer", lane))
        with Staged([changed_rows(changes)], ("id",)) as staged:
            session.apply(claim, Position(position), shape, staged.chunks(), lambda refused: None)

    apply("0", 7, [(1, "new"), (2, None)])
    apply("1", 6, [(1, "old"), (2, "old"), (3, "old")])
    assert people(target) == {1: "new", 3: "old"}
    session.close()


def test_another_writer_begins_anew_and_counts_as_newer(target: SearchTarget) -> None:
    first = Writer(target.store)
    for number in range(3):
        first.write([(1, f"first {number}")])
    Writer(target.store).write([(1, "second")])
    assert people(target) == {1: "second"}


def test_a_document_that_is_refused_is_told(target: SearchTarget) -> None:
    target.ask("PUT", "/people", {"mappings": {"dynamic": "strict", "properties": {}}})
    target.ask(
        "PUT",
        "/people/_mapping",
        {"properties": {"id": {"type": "long"}, "name": {"type": "text", "index": True}}},
    )
    target.ask(
        "PUT",
        "/people/_mapping",
        {"properties": {"name": {"type": "text", "fields": {"raw": {"type": "keyword"}}}}},
    )
    batch = Batch("q", 0, 1)
    sink = StoreSink(target.store, "people", ("id",))
    sink.begin(batch)
    with pytest.raises(RowRefused, match="immense term"):
        sink.write(batch.place(0), iter([changed_rows([(1, "ann"), (2, "x" * 40_000)])]))


def test_a_mapping_that_does_not_fit_is_refused(target: SearchTarget) -> None:
    target.ask("PUT", "/people", {"mappings": {"properties": {"name": {"type": "long"}}}})
    with pytest.raises(ColumnsRefused, match="field name of the index people is long there"):
        Writer(target.store).write([(1, "ann")])


def test_times_of_any_century_are_kept_to_the_digit_and_sorted(target: SearchTarget) -> None:
    days = [f"{year}-02-28T12:00:00.{year:06}" for year in (1815, 1969, 1970, 2026, 2500)]
    rows = pa.RecordBatch.from_pydict(
        {
            "id": pa.array(range(len(days)), pa.int64()),
            "at": pa.array([datetime.fromisoformat(each) for each in days], pa.timestamp("us")),
        }
    )
    batch = Batch("times", 0, 1)
    sink = StoreSink(target.store, "events", ("id",))
    sink.begin(batch)
    sink.write(batch.place(0), iter([rows]))
    found = target.ask("GET", "/events/_search?sort=at:desc")["hits"]["hits"]
    assert [each["_source"]["at"] for each in found] == days[::-1]


def test_a_time_may_be_mapped_more_finely(target: SearchTarget) -> None:
    target.ask("PUT", "/people", {"mappings": {"properties": {"at": {"type": "date_nanos"}}}})
    session = target.store.session()
    columns = pa.schema({"id": pa.int64(), "at": pa.timestamp("us")})
    session.prepare(Shape("people", columns, ("id",)))
    session.close()
    mappings = target.ask("GET", "/people/_mapping")["people"]["mappings"]["properties"]
    assert mappings["at"] == {"type": "date_nanos"}


def test_a_name_that_cannot_be_is_told(target: SearchTarget) -> None:
    with pytest.raises(StoreRefused, match="must be lowercase"):
        Writer(target.store, table="People").write([(1, "ann")])


def test_a_node_that_is_away_is_said_to_be() -> None:
    with pytest.raises(StoreUnreachable, match=r"shop:\*\*\*@127.0.0.1:1"):
        Writer(SearchStore("opensearch://shop:secret@127.0.0.1:1")).write([(1, "ann")])
