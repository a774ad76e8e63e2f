"""Rows with a column of every type that stores know, their extremes and nulls included."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def typed_rows() -> "pa.RecordBatch":
    """Three rows: something ordinary, extremes, and nothing but the key and a text."""
    import pyarrow as pa

    price = pa.decimal128(18, 4)
    columns = {
        "id": pa.array([1, 2, 3], pa.int32()),
        "text": pa.array(["plain", 'quoted "text", with\nlines\tand ünïcödé', ""]),
        "yes": pa.array([True, False, None]),
        "tiny": pa.array([-128, 127, None], pa.int8()),
        "small": pa.array([-(2**15), 2**15 - 1, None], pa.int16()),
        "whole": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
        "single": pa.array([0.5, -1.25, None], pa.float32()),
        "double": pa.array([0.1, 1e300, None], pa.float64()),
        "price": pa.array([Decimal("12.3400"), Decimal("-99999999999999.9999"), None], price),
        "raw": pa.array([b"\x00\xff'\\", b"", None], pa.binary()),
        "day": pa.array([date(2026, 2, 28), date(1900, 1, 1), None], pa.date32()),
        "at": pa.array(
            [
                datetime(2026, 2, 28, 23, 59, 59, 123456, UTC),
                datetime(1970, 1, 1, tzinfo=UTC),
                None,
            ],
            pa.timestamp("us", "UTC"),
        ),
        "wall": pa.array(
            [datetime(2026, 2, 28, 12), datetime(1969, 12, 31, 23, 59, 59), None],  # noqa: DTZ001
            pa.timestamp("us"),
        ),
        "tags": pa.array([["a", "b"], [], None], pa.list_(pa.string())),
        "where": pa.array(
            [{"x": 1, "y": 2.5}, {"x": None, "y": 0.0}, None],
            pa.struct({"x": pa.int64(), "y": pa.float64()}),
        ),
    }
    return pa.RecordBatch.from_pydict(columns)
