"""Records of a table: each is the row of a key, or says that there is none any more.

A record without a value deletes the row of its key, and so does a change of Debezium's that is a
deletion. A value that lacks a column of the key takes it from the record's key. A record whose key
nobody can tell is rejected: to take it for a deletion would delete something else, or nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.records.kernels.compiled import Int64s
from headrace.streams.formats.avro_values import AvroDecoder
from headrace.streams.formats.debezium import JsonEnvelopes
from headrace.streams.formats.decoding import Decoded, Decoder, Flags, Reasons, reject
from headrace.streams.formats.formats import decoder
from headrace.streams.formats.json_schema import JsonSchemaDecoder
from headrace.streams.formats.json_values import JsonDecoder
from headrace.streams.formats.schemas import arrow_schema, nullable
from headrace.streams.plan import DELETED

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_OPERATION: Final = "_op"
"""The column in which Debezium's changes, unwrapped, say what happened."""

_DELETE: Final = "d"


class KeyedDecoder:
    """Reads the values of another format as a table's rows, with `_deleted` as one more column."""

    def __init__(
        self,
        format: str,  # noqa: A002
        schema: "StructType",
        options: Mapping[str, str],
        key: Sequence[str],
    ) -> None:
        from pyspark.sql.types import StructType

        keys = nullable(StructType([schema[name] for name in key]))
        relaxed = [keys[each.name] if each.name in key else each for each in schema]
        self.schema = arrow_schema(nullable(schema)).append(pa.field(DELETED, pa.bool_()))
        self._values = decoder(format, StructType(relaxed), {**options, "tombstones": "skip"})
        self._keys = _KeyReader(format, keys, options)
        self._key = tuple(key)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See `Decoder`; needs the records' keys too."""
        decoded = self._values.decode(records)
        missing: Flags = records.column("value").is_null().to_numpy(zero_copy_only=False)
        rows, places = _with_tombstones(decoded, missing)
        deleted = missing[places]
        if _OPERATION in rows.schema.names:
            operations = pc.equal(rows.column(_OPERATION), _DELETE).fill_null(False)
            deleted = deleted | operations.to_numpy(zero_copy_only=False)
        columns, problems = self._complete(rows, records, places)
        table = pa.RecordBatch.from_arrays([*columns, pa.array(deleted)], schema=self.schema)
        found = replace(decoded, rows=table, accepted=pa.array(places), skipped=0)
        return reject(found, problems)

    def _complete(
        self, rows: pa.RecordBatch, records: pa.RecordBatch, places: Int64s
    ) -> tuple[list[pa.Array], Reasons]:
        """The columns, with those of the key taken from the record's key where they are null."""
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        lacking = np.zeros(rows.num_rows, np.bool_)
        for name in self._key:
            lacking |= columns[name].is_null().to_numpy(zero_copy_only=False)
        wanted = np.flatnonzero(lacking)
        if not len(wanted):
            return list(columns.values()), {}
        found = self._keys.read(records.take(pa.array(places[wanted])))
        order = np.full(rows.num_rows, -1, np.int64)
        order[wanted] = np.arange(len(wanted))
        taken = found.take(pa.array(order, mask=order < 0))
        problems: Reasons = {}
        for name in self._key:
            columns[name] = pc.coalesce(columns[name], taken.column(name))
            for row in np.flatnonzero(columns[name].is_null().to_numpy(zero_copy_only=False)):
                problems.setdefault(int(row), f"{name}: neither in the value nor in the key")
        return list(columns.values()), problems


def _with_tombstones(decoded: Decoded, missing: Flags) -> tuple[pa.RecordBatch, Int64s]:
    """The rows with one of nulls for each record without a value, and the record of each row."""
    count = len(missing)
    accepted = np.arange(count) if decoded.accepted is None else decoded.accepted.to_numpy()
    order = np.full(count, -1, np.int64)
    order[accepted] = np.arange(len(accepted))
    places = np.flatnonzero((order >= 0) | missing)
    if len(places) == len(accepted):
        return decoded.rows, places
    taken = order[places]
    return decoded.rows.take(pa.array(taken, mask=taken < 0)), places


class _KeyReader:
    """What records' keys say: objects as the format writes them, JSON, or the text of one column.

    A column that a key does not have, or that it has in another type, is null.
    """

    def __init__(
        self,
        format: str,  # noqa: A002
        schema: "StructType",
        options: Mapping[str, str],
    ) -> None:
        self._schema = schema
        options = {**options, "tombstones": "skip"}
        self._readers: list[Decoder] = []
        if "registry" in options:
            framed = JsonSchemaDecoder if format == "json_schema" else AvroDecoder
            self._readers.append(framed(schema, options))
        objects = JsonEnvelopes if format == "debezium" else JsonDecoder
        self._readers.append(objects(schema, options))
        self._texts = JsonDecoder(schema, options) if len(schema) == 1 else None

    def read(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the key, one row for each record."""
        keys = records.column("key")
        columns = [pa.nulls(len(keys), field.type) for field in arrow_schema(self._schema)]
        for each in self._readers:
            columns = _filled(columns, each, records, keys)
        if self._texts is not None:
            if columns[0].type == pa.binary():
                columns = [pc.coalesce(columns[0], keys)]
            else:
                written = [_as_object(each, self._schema[0].name, columns[0].type) for each in keys]
                columns = _filled(columns, self._texts, records, pa.array(written, pa.binary()))
        return pa.RecordBatch.from_arrays(columns, names=self._schema.names)


def _filled(
    columns: list[pa.Array], reader: Decoder, records: pa.RecordBatch, keys: pa.Array
) -> list[pa.Array]:
    """Columns with what a reader finds in keys where they are null."""
    place = records.schema.get_field_index("value")
    decoded = reader.decode(records.set_column(place, "value", keys))
    accepted = decoded.accepted
    order = np.full(len(keys), -1, np.int64)
    order[slice(None) if accepted is None else accepted.to_numpy()] = np.arange(
        decoded.rows.num_rows
    )
    taken = pa.array(order, mask=order < 0)
    found = [each.take(taken) for each in decoded.rows.columns]
    return [pc.coalesce(each, more) for each, more in zip(columns, found, strict=True)]


def _as_object(key: pa.BinaryScalar, name: str, kind: pa.DataType) -> bytes | None:
    """The text of a key as a JSON object with one field."""
    raw = key.as_py()
    try:
        text = None if raw is None else raw.decode()
        if text is None:
            return None
        if not pa.types.is_string(kind):
            json.loads(text)
            return b"{%s: %s}" % (json.dumps(name).encode(), raw)
    except UnicodeDecodeError:
        return None
    except (ValueError, RecursionError):
        pass
    return json.dumps({name: text}).encode()
