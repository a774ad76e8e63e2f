"""What a database says of rows: the oracle of tables."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any


def query(sql: str, tables: Mapping[str, tuple[Sequence[str], Sequence[Mapping[str, Any]]]]) -> Any:
    """The rows of a query over tables, each given by its columns and its rows."""
    with sqlite3.connect(":memory:") as database:
        database.row_factory = sqlite3.Row
        for name, (columns, rows) in tables.items():
            quoted = ", ".join(f'"{each}"' for each in columns)
            database.execute(f'create table "{name}" ({quoted})')
            places = ", ".join("?" * len(columns))
            values = [tuple(row[each] for each in columns) for row in rows]
            database.executemany(f'insert into "{name}" values ({places})', values)
        return [dict(row) for row in database.execute(sql)]
