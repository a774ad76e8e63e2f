"""What DuckDB says of rows: the oracle of joins and tables."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

Tables = Mapping[str, tuple[Any, Sequence[Mapping[str, Any]]]]
"""Arrow schemas and rows, which may say more than that, by the names of tables."""


def query(sql: str, tables: Tables) -> list[dict[str, Any]]:
    """The rows of a query over tables."""
    database = _database()
    for name, (schema, rows) in tables.items():
        chosen = [{each: row[each] for each in schema.names} for row in rows]
        database.register(name, pa.Table.from_pylist(chosen, schema))
    found: list[dict[str, Any]] = database.sql(sql).to_arrow_table().to_pylist()
    return found


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})
