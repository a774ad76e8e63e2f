"""Whether a value was among those of a window, probably: a Bloom filter.

`contains` says no only of values that were not there, and yes of others with the probability that
was asked for, as long as there are not more distinct values than expected. The filter is the union
of its parts, bit by bit: order, repetition and mergers make no difference.

A filter in bytes: the version, 1; how many bits each value sets; then the bits, of each byte the
lowest first. Value v sets the bits (h1 + i * h2) modulo their number, where h1 and h2 are the two
hashes that state knows keys by (`state.hashing`), the second one made odd.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.records.kernels.compiled import compiled
from headrace.streams.state.hashing import KEYS, ROWS, hashes
from headrace.streams.windows.aggregates.blobs import from_bytes, to_bytes
from headrace.streams.windows.aggregates.collecting import flat
from headrace.streams.windows.aggregates.errors import InvalidAggregate
from headrace.streams.windows.aggregates.protocol import Aggregate, Windows
from headrace.streams.windows.groups import Groups, read_only

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Bytes, Int64s, UInt64s

_VERSION: Final = 1
_HEADER: Final = 2


@dataclass(frozen=True)
class Bloom(Aggregate):
    """A filter of the values, for `contains`; nulls are left out.

    `expected` is the number of distinct values up to which it errs in at most `error` of the cases.
    """

    expected: int = 1000
    error: float = 0.01

    def __post_init__(self) -> None:
        if self.expected < 1 or not 0 < self.error < 1:
            raise InvalidAggregate(
                f"A filter for {self.expected} values with an error of {self.error} cannot be; "
                "expect at least one value, and an error between 0 and 1."
            )

    @property
    def size(self) -> int:
        """The bytes of a filter, without its header."""
        return ceil(-self.expected * log(self.error) / log(2) ** 2 / 8)

    @property
    def probes(self) -> int:
        """How many bits a value sets."""
        return min(255, max(1, round(self.size * 8 / self.expected * log(2))))

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """A filter."""
        flat(arguments[0], self)
        return (pa.large_binary(),)

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """Bytes."""
        return pa.binary()

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Set bits."""
        first, second = _hashes(arguments[0])
        there = read_only(arguments[0].is_not_null().to_numpy())
        filters = np.zeros((len(groups), _HEADER + self.size), np.uint8)
        filters[:, 0], filters[:, 1] = _VERSION, self.probes
        _set(filters, first, second, there, groups.starts, groups.ends)
        return (_column(filters),)

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Unite filters."""
        data, _ = to_bytes(columns[0])
        if not len(groups):
            return columns
        filters = data.reshape(groups.rows, _HEADER + self.size)
        return (_column(np.bitwise_or.reduceat(filters, groups.starts, axis=0)),)

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The filter."""
        return columns[0]


def contains(filter_: bytes, values: pl.Series) -> pl.Series:
    """Which of these values, of the type that the filter was made of, were probably there.

    Null was not. Raises InvalidAggregate for bytes that are no filter.
    """
    if len(filter_) <= _HEADER or filter_[0] != _VERSION:
        raise InvalidAggregate("These bytes are no Bloom filter of a version that is known here.")
    bits = read_only(np.frombuffer(filter_, np.uint8))
    first, second = _hashes(values)
    return pl.Series(_probed(bits, first, second)) & values.is_not_null()


def _hashes(values: pl.Series) -> "tuple[UInt64s, UInt64s]":
    array = values.to_arrow()
    return (
        read_only(hashes([array], KEYS, len(array))),
        read_only(hashes([array], ROWS, len(array)) | np.uint64(1)),
    )


def _column(filters: Any) -> pl.Series:
    rows, width = filters.shape
    return from_bytes(filters.ravel(), np.arange(rows + 1, dtype=np.int64) * width)


@compiled
def _set(
    filters: Any, first: "UInt64s", second: "UInt64s", there: Any, starts: "Int64s", ends: "Int64s"
) -> None:
    bits = np.uint64((filters.shape[1] - _HEADER) * 8)
    for group in range(len(starts)):
        for row in range(starts[group], ends[group]):
            if there[row]:
                at = first[row]
                for _ in range(filters[group, 1]):
                    bit = np.int64(at % bits)
                    filters[group, _HEADER + (bit >> 3)] |= np.uint8(1 << (bit & 7))
                    at += second[row]


@compiled
def _probed(data: "Bytes", first: "UInt64s", second: "UInt64s") -> Any:
    bits = np.uint64((len(data) - _HEADER) * 8)
    found = np.ones(len(first), np.bool_)
    for row in range(len(first)):
        at = first[row]
        for _ in range(data[1]):
            bit = np.int64(at % bits)
            if not (data[_HEADER + (bit >> 3)] >> (bit & 7)) & 1:
                found[row] = False
                break
            at += second[row]
    return found
