"""Changed tables as events of their own, as Debezium tells those of databases that log DDL."""

from typing import Any

import orjson

from headrace import __version__
from headrace.capture.changes import Column, Table, TableName
from headrace.capture.envelope.modes import Modes
from headrace.capture.envelope.records import Record
from headrace.capture.envelope.types import encoding_of, field_schema
from headrace.capture.source import Source


class SchemaEvents:
    """Makes a record of each new shape of a table.

    Args:
        source: Whose tables.
        prefix: Their topic is called that.
        modes: How values are written, which their schemas tell.
    """

    def __init__(self, source: Source, prefix: str, modes: Modes) -> None:
        self.topic = prefix
        self._source = source
        self._modes = modes

    def changed(self, table: Table, *, version: int, time_ms: int) -> Record:
        """From here on, rows of a table look like this."""
        shape = {
            "primaryKeyColumnNames": table.key_names,
            "columns": [
                self._column(place, column) for place, column in enumerate(table.columns, 1)
            ],
        }
        kind = "CREATE" if version == 1 else "ALTER"
        return self._record(table.name, kind, shape, version, time_ms)

    def dropped(self, name: TableName, *, version: int, time_ms: int) -> Record:
        """A table is gone."""
        return self._record(name, "DROP", None, version, time_ms)

    def _column(self, place: int, column: Column) -> dict[str, Any]:
        return {
            "name": column.name,
            "typeName": column.type.name,
            "nativeType": column.type.native or None,
            "length": column.type.length
            if column.type.length is not None
            else column.type.precision,
            "scale": column.type.scale,
            "position": place,
            "optional": column.nullable,
            "generated": column.generated,
            "enumValues": list(column.type.members) or None,
            "schema": field_schema(column, encoding_of(column.type, self._modes)),
        }

    def _record(
        self, name: TableName, kind: str, shape: dict[str, Any] | None, version: int, time_ms: int
    ) -> Record:
        source = self._source
        database = source.database_of(name)
        value = {
            "source": {
                "version": __version__,
                "connector": source.connector,
                "name": self.topic,
                "db": database,
                "schema": name.schema,
                "table": name.table,
            },
            "ts_ms": time_ms,
            "databaseName": database,
            "schemaName": name.schema,
            "tableChanges": [
                {
                    "type": kind,
                    "id": f'"{database}"."{name.schema}"."{name.table}"',
                    "version": version,
                    "table": shape,
                }
            ],
        }
        # One key per shape: compaction would otherwise forget the shapes that old rows have.
        key = {"databaseName": database, "table": str(name), "version": version}
        return Record(self.topic, orjson.dumps(key), orjson.dumps(value))
