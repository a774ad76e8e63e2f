"""Parquet files keep the contract, as far as it is about rows that are only added."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from headrace.streams.sinks.contract import Batch
from headrace.streams.sinks.storing import StoreSink
from headrace.testing.sink_contract import SinkContract, new_query
from headrace.testing.store_contract import Killed, NumberedStore, Writer, numbered_rows
from headrace.testing.typed_rows import typed_rows
from headrace.views.stores.errors import ColumnsRefused, StoreRefused, StoreUnreachable
from headrace.views.stores.parquet import ParquetStore


class ParquetTarget(NumberedStore):
    """A directory of a test's own."""

    store: ParquetStore

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = ParquetStore(str(directory))

    def contents(self, table: str) -> list[dict[str, Any]]:
        files = sorted((self.directory / table).glob("[!_]*.parquet"))
        tables = [pyarrow.parquet.read_table(each) for each in files]
        if not tables:
            return []
        rows: list[dict[str, Any]] = pa.concat_tables(tables, promote_options="default").to_pylist()
        return rows


@pytest.fixture
def target(tmp_path: Path) -> ParquetTarget:
    return ParquetTarget(tmp_path / "lake")


class TestParquet(SinkContract):
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


def test_tables_are_refused_with_what_to_do(target: ParquetTarget) -> None:
    with pytest.raises(StoreRefused, match=r"flow\.sink\(table\.upserts\(\)"):
        Writer(target.store).write([(1, "ann")])


def test_a_directory_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnreachable, match="cannot be written now"):
        write(ParquetTarget(tmp_path / "file" / "lake"), numbered_rows([1]))


def test_a_process_killed_between_any_two_steps_leaves_nothing_twice(
    target: ParquetTarget,
) -> None:
    module = "headrace.views.stores.parquet"
    steps = [f"{module}:_sync", f"{module}:ParquetSession._renamed"]
    killed = Killed(target.store, steps, [[], []], new_query()).at_every_step()
    assert killed > 5
    for step in range(killed + 1):
        numbers = sorted(row["number"] for row in target.contents(f"numbers_{step}"))
        assert numbers == list(range(20)), f"killed at step {step}"
