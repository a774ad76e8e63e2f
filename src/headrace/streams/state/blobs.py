"""Columns as bytes and back: what is shuffled and what is stored are Arrow streams."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import polars as pl


def to_blob(rows: Any) -> bytes:
    """A table or record batch as one Arrow stream; the same bytes for the same rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        if isinstance(rows, pa.Table):
            writer.write_table(rows.combine_chunks())
        else:
            writer.write_batch(rows)
    return bytes(sink.getvalue())


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
