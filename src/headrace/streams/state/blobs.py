"""Columns as bytes and back: what is shuffled and what is stored are Arrow streams."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    import polars as pl

LARGEST: Final = 1 << 20
"""About how large a blob may be that Spark moves. A thousand of them make a batch on their way to
Python, whatever their size, and one column of a batch has no more than 2 GB."""


def to_blob(rows: Any) -> bytes:
    """A table or record batch as one Arrow stream; the same bytes for the same rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        if isinstance(rows, pa.Table):
            writer.write_table(rows.combine_chunks())
        else:
            writer.write_batch(rows)
    return bytes(sink.getvalue())


def to_blobs(rows: Any) -> Iterator[bytes]:
    """A table as Arrow streams of about `LARGEST` bytes, which can be moved one by one."""
    at_a_time = rows_at_a_time(rows)
    for start in range(0, rows.num_rows, at_a_time):
        yield to_blob(rows.slice(start, at_a_time))


def rows_at_a_time(rows: Any) -> int:
    """How many rows of a table make a blob of about `LARGEST` bytes; at least one."""
    count: int = rows.num_rows
    size: int = rows.nbytes
    return max(1, LARGEST * count // max(size, 1))


def from_blob(blob: Any) -> Any:
    """The Arrow table of a stream, without copying: its columns lie in `blob`."""
    return pa.ipc.open_stream(blob).read_all()


def to_arrow(frame: "pl.DataFrame", schema: Any) -> Any:
    """A Polars frame as an Arrow table of exactly this schema: these columns, in this order."""
    import polars as pl

    # A query of `select` takes longer than everything else that is done to a small frame.
    chosen = pl.DataFrame([frame.get_column(name) for name in schema.names])
    table = chosen.to_arrow(compat_level=pl.CompatLevel.oldest())
    return table if table.schema == schema else table.cast(schema)


def to_polars(table: Any) -> "pl.DataFrame":
    """An Arrow table or record batch as a Polars frame."""
    import polars as pl

    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def schema_to_text(schema: Any) -> str:
    """A schema as it is stored in JSON."""
    return str(schema.remove_metadata().serialize().to_pybytes().hex())


def schema_from_text(text: str) -> Any:
    """What `schema_to_text` stored."""
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))
