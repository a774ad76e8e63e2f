"""Parquet files keep the contract: rows that are added, and tables as their changes."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from headrace.streams.sinks.contract import Batch
from headrace.streams.sinks.storing import StoreSink
from headrace.testing.sink_contract import new_query
from headrace.testing.store_contract import (
    NumberedStore,
    StoreContract,
    Writer,
    numbered_rows,
    people,
)
from headrace.testing.typed_rows import typed_rows
from headrace.views.stores.errors import ColumnsRefused, StoreUnreachable
from headrace.views.stores.parquet import ROW_VERSION, ParquetStore, latest


class ParquetTarget(NumberedStore):
    """A directory of a test's own."""

    store: ParquetStore

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = ParquetStore(str(directory))

    def contents(self, table: str) -> list[dict[str, Any]]:
        files = sorted((self.directory / table).glob("[!_]*.parquet"))
        if files and ROW_VERSION in pyarrow.parquet.read_schema(files[0]).names:
            now: list[dict[str, Any]] = latest(self.directory / table, ("id",)).to_pylist()
            return now
        tables = [pyarrow.parquet.read_table(each) for each in files]
        if not tables:
            return []
        rows: list[dict[str, Any]] = pa.concat_tables(tables, promote_options="default").to_pylist()
        return rows

    def limit(self, table: str) -> bool:
        return False

    def steps(self) -> list[str]:
        module = "headrace.views.stores.parquet"
        return [f"{module}:_sync", f"{module}:ParquetSession._renamed"]


@pytest.fixture
def target(tmp_path: Path) -> ParquetTarget:
    return ParquetTarget(tmp_path / "lake")


class TestParquet(StoreContract):
    @pytest.fixture
    def target(self, tmp_path: Path) -> ParquetTarget:
        return ParquetTarget(tmp_path / "lake")


def write(target: ParquetTarget, rows: pa.RecordBatch, table: str = "numbers") -> None:
    batch = Batch(new_query(), 0, 1)
    sink = StoreSink(target.store, table)
    sink.begin(batch)
    sink.write(batch.place(0), iter([rows]))


def test_every_type_is_kept_as_it_is(target: ParquetTarget) -> None:
    write(target, typed_rows(), "typed")
    assert target.contents("typed") == typed_rows().to_pylist()


def test_columns_that_come_later_are_in_later_files(target: ParquetTarget) -> None:
    write(target, pa.RecordBatch.from_pydict({"number": [1]}))
    write(target, pa.RecordBatch.from_pydict({"number": [2], "city": ["Rome"]}))
    found = sorted(target.contents("numbers"), key=lambda row: int(row["number"]))
    assert found == [{"number": 1, "city": None}, {"number": 2, "city": "Rome"}]
    with pytest.raises(ColumnsRefused, match="column number of numbers is int64"):
        write(target, pa.RecordBatch.from_pydict({"number": ["three"]}))


def test_other_readers_see_nothing_but_rows(target: ParquetTarget) -> None:
    write(target, numbered_rows(range(5)))
    found = pyarrow.dataset.dataset(target.directory / "numbers", format="parquet")
    assert found.to_table().num_rows == 5


def test_any_reader_finds_what_a_table_is_now(target: ParquetTarget) -> None:
    """With the SQL of docs/sinks.md."""
    duckdb = pytest.importorskip("duckdb")
    writer = Writer(target.store)
    writer.write([(1, "ann"), (2, "bob")], [(2, "rob"), (3, "cyd")])
    writer.write([(1, None), (3, "sid")])
    writer.write([(4, "dan")], extra="city")
    found = duckdb.sql(
        f"""
        SELECT * EXCLUDE (_deleted, _version, _row)
        FROM read_parquet('{target.directory}/people/*.parquet', union_by_name = true)
        QUALIFY row_number() OVER (PARTITION BY id ORDER BY _version DESC, _row DESC) = 1
            AND NOT _deleted
        ORDER BY id
        """
    )
    assert found.fetchall() == [(2, "rob", None), (3, "sid", None), (4, "dan", "city of dan")]
    assert found.columns == ["id", "name", "city"]


def test_another_writer_begins_anew_and_counts_as_later(target: ParquetTarget) -> None:
    first = Writer(target.store)
    for number in range(3):
        first.write([(1, f"first {number}"), (2, "two")])
    second = Writer(target.store)
    second.write([(1, "second")])
    assert people(target) == {1: "second", 2: "two"}
    first.write([(2, None)])
    assert people(target) == {1: "second"}


def test_a_directory_is_of_a_table_or_of_a_stream(target: ParquetTarget) -> None:
    Writer(target.store).write([(1, "ann")])
    with pytest.raises(ColumnsRefused, match="has files with the changes of a table"):
        write(target, numbered_rows(range(5)), "people")
    write(target, numbered_rows(range(5)))
    with pytest.raises(ColumnsRefused, match="has files with rows of a stream"):
        Writer(target.store, table="numbers").write([(1, "ann")])


def test_a_directory_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnreachable, match="cannot be written now"):
        write(ParquetTarget(tmp_path / "file" / "lake"), numbered_rows([1]))
