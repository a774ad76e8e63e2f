"""DuckDB keeps the contract, also with several processes that write."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.store_contract import NumberedStore, StoreContract, Writer
from headrace.views.stores.duckdb import DuckdbStore
from headrace.views.stores.errors import ColumnsRefused

duckdb = pytest.importorskip("duckdb")


class DuckdbTarget(NumberedStore):
    """A DuckDB file of a test's own."""

    store: DuckdbStore

    def __init__(self, path: Path) -> None:
        self.store = DuckdbStore(str(path))

    def run(self, sql: str) -> list[dict[str, Any]]:
        connection = duckdb.connect(self.store.path)
        try:
            found = connection.execute(sql)
            names = [column[0] for column in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        finally:
            connection.close()

    def contents(self, table: str) -> list[dict[str, Any]]:
        try:
            return self.run(f'SELECT * FROM "{table}"')
        except duckdb.CatalogException:
            return []

    def limit(self, table: str) -> bool:
        # DuckDB adds no constraint to a table that is there.
        self.run(f"CREATE TABLE before AS FROM {table}")
        self.run(f"DROP TABLE {table}")
        self.run(
            f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name VARCHAR "
            "CHECK (length(name) <= 10 AND name <> 'much too long'))"
        )
        self.run(f"INSERT INTO {table} FROM before")
        return True

    def steps(self) -> list[str]:
        session = "headrace.views.stores.duckdb:DuckdbSession"
        # What others may see: who has the file, and what is in it.
        return [f"{session}._opened", f"{session}._run_with", f"{session}._commit"]


@pytest.fixture
def target(tmp_path: Path) -> DuckdbTarget:
    return DuckdbTarget(tmp_path / "shop.duckdb")


class TestDuckdb(StoreContract):
    killed_batches = 1

    @pytest.fixture
    def target(self, tmp_path: Path) -> DuckdbTarget:
        return DuckdbTarget(tmp_path / "shop.duckdb")


def test_structures_are_those_of_duckdb(target: DuckdbTarget) -> None:
    TestDuckdb().test_nulls_and_every_type_are_kept(target)
    types = {row["column_name"]: row["column_type"] for row in target.run("DESCRIBE typed")}
    assert (types["tags"], types["where"]) == ("VARCHAR[]", "STRUCT(x BIGINT, y DOUBLE)")
    assert (types["at"], types["price"]) == ("TIMESTAMP WITH TIME ZONE", "DECIMAL(18,4)")
    first = target.run("SELECT * FROM typed ORDER BY id")[0]
    assert (first["tags"], first["where"]) == (["a", "b"], {"x": 1, "y": 2.5})
    assert first["at"] == datetime(2026, 2, 28, 23, 59, 59, 123456, UTC)


def test_a_table_without_a_unique_key_is_refused(target: DuckdbTarget) -> None:
    target.run("CREATE TABLE people (id BIGINT, name VARCHAR)")
    with pytest.raises(ColumnsRefused, match="Nothing says that id is unique"):
        Writer(target.store).write([(1, "ann")])


def test_who_writes_waits_for_who_reads(target: DuckdbTarget) -> None:
    """A file that another process has open can be written once that has closed it."""
    import subprocess
    import sys

    Writer(target.store).write([(1, "ann")])
    code = (
        "import duckdb, sys, time; c = duckdb.connect(sys.argv[1], read_only=True); "
        "print('open', flush=True); time.sleep(0.5)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, target.store.path], stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        Writer(target.store).write([(2, "bob")])
    assert len(target.contents("people")) == 2
