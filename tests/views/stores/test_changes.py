"""Rows as stores are given them: of each key the last, numbered as they came, in bounded memory."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.testing.store_contract import Change, changed_rows
from headrace.views.stores import InvalidStore, store_of
from headrace.views.stores.changes import ROW, Chunk, chunks_of, joined
from headrace.views.stores.columns import as_iso, hexadecimal
from headrace.views.stores.duckdb import DuckdbStore
from headrace.views.stores.errors import ColumnsRefused
from headrace.views.stores.kinds import kind_of
from headrace.views.stores.sqlite import SqliteStore
from headrace.views.stores.staging import Staged

Pieces = list[list[Change]]

changes = st.lists(
    st.tuples(st.integers(0, 5), st.none() | st.text("abc", max_size=2)), min_size=1, max_size=30
)


def replayed(chunks: list[Chunk]) -> dict[int, str]:
    state: dict[int, str] = {}
    for chunk in chunks:
        keys = chunk.deletes.column("id").to_pylist() + chunk.upserts.column("id").to_pylist()
        assert len(keys) == len(set(keys))
        for key in chunk.deletes.column("id").to_pylist():
            state.pop(key, None)
        for row in chunk.upserts.to_pylist():
            state[row["id"]] = row["name"]
    return state


@settings(deadline=None)
@given(st.lists(changes, min_size=1, max_size=5), st.integers(1, 20))
def test_chunks_lead_to_what_their_rows_lead_to(pieces: Pieces, size: int) -> None:
    expected: dict[int, str] = {}
    for key, name in (change for piece in pieces for change in piece):
        expected.pop(key, None)
        if name is not None:
            expected[key] = name
    batches = [changed_rows(each) for each in pieces]
    chunks = list(chunks_of(batches, ["id"], rows=size))
    assert replayed(chunks) == expected
    assert replayed(joined(chunks, ["id"])) == expected
    halves = [half for chunk in chunks if chunk.rows > 1 for half in chunk.halves()]
    assert sum(each.rows for each in halves) == sum(each.rows for each in chunks if each.rows > 1)


@settings(deadline=None)
@given(st.lists(changes, min_size=1, max_size=5), st.integers(1, 500))
def test_rows_can_be_read_again_wherever_they_are_kept(pieces: Pieces, memory: int) -> None:
    batches = [changed_rows(each) for each in pieces]
    with Staged(batches, ("id",), memory_bytes=memory) as staged:
        assert staged.rows == sum(map(len, pieces))
        for _ in range(2):
            numbers = [
                number
                for chunk in chunks_of(staged._batches(), ())
                for number in chunk.upserts.column(ROW).to_pylist()
            ]
            assert numbers == list(range(staged.rows))
        last = staged.taken([staged.rows - 1]).to_pylist()
        assert (last[0]["id"], last[0]["name"]) == pieces[-1][-1]


def test_rows_without_a_key_are_named_and_left_out() -> None:
    rows = pa.RecordBatch.from_pydict({"id": [1, None, 3], "name": ["a", "b", "c"]})
    with Staged([rows], ("id",)) as staged:
        assert [(each.row, each.reason) for each in staged.keyless] == [
            (1, "id is null, and it is a part of the key")
        ]
        (chunk,) = staged.chunks()
        assert chunk.upserts.column(ROW).to_pylist() == [0, 2]


def test_bytes_and_times_are_texts_that_can_be_read_back() -> None:
    column = pa.array([b"\x00\xff", None, b""], pa.binary()).slice(0, 3)
    assert hexadecimal(column, "\\x").to_pylist() == ["\\x00ff", None, "\\x"]
    assert hexadecimal(column.slice(1), "").to_pylist() == [None, ""]
    moment = pa.array([0, None], pa.timestamp("ms", "Europe/Berlin"))
    assert as_iso(moment).to_pylist() == ["1970-01-01T00:00:00.000000Z", None]


def test_a_type_that_no_store_has_is_refused() -> None:
    with pytest.raises(ColumnsRefused, match="cast"):
        kind_of(pa.field("took", pa.duration("us")))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("oracle://host/db", "begins with one of postgresql://"),
        ("postgresql://host", "write it as postgresql://user:password@host:5432/database"),
        ("sqlite:///:memory:", "does not name a store"),
        ("duckdb:///a.db?mode=fast", "has the option mode; there are none"),
        ("redis:///0", "write it as redis://"),
        ("postgresql://shop:secret@host:port/db", r"shop:\*\*\*@host"),
    ],
)
def test_a_url_that_names_no_store_is_refused_without_its_password(url: str, said: str) -> None:
    with pytest.raises(InvalidStore, match=said) as refused:
        store_of(url)
    assert "secret" not in str(refused.value)


def test_stores_are_values() -> None:
    for url, store in (
        ("sqlite:////tmp/a.db?search=title,body", SqliteStore("/tmp/a.db", ("title", "body"))),
        ("duckdb:///a.duckdb", DuckdbStore("a.duckdb")),
    ):
        assert store_of(url) == store == pickle.loads(pickle.dumps(store))
        assert hash(store_of(url)) == hash(store)
