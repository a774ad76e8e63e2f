"""Quantiles of numbers, approximately: a KLL sketch.

A sketch keeps samples in levels; a sample of level l stands for 2^l values. When there are more
than it has room for, the lowest full level is sorted and every second sample goes up a level
(Karnin, Lang, Liberty, "Optimal quantile approximation in streams", 2016). With k = 256 the rank of
what is returned is within about 1 % of the one asked for, with a probability of 99 %; of up to 256
values a quantile is exact. Where other implementations toss a coin, the number of values decides,
so that the same parts always merge into the same sketch; but other parts of the same values may
give another one, within the error.

A sketch in bytes, all of it little-endian 64-bit numbers: the version, 1; the number of values; the
least and the greatest as floats; the number of levels; the number of samples of each; the samples,
sorted in each level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.records.kernels.compiled import compiled
from headrace.streams.windows.aggregates.blobs import from_bytes, to_bytes
from headrace.streams.windows.aggregates.errors import InvalidAggregate
from headrace.streams.windows.aggregates.protocol import Aggregate, Windows
from headrace.streams.windows.groups import Groups, read_only

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s
    from headrace.streams.windows.aggregates.arithmetic import Floats

_VERSION: Final = 1
_K: Final = 256
_SMALLEST: Final = 8
"""The room of the lowest levels, which would otherwise have next to none."""

_COUNT: Final = 1
_LEAST: Final = 2
_GREATEST: Final = 3
_LEVELS: Final = 4
_SIZES: Final = 5


@dataclass(frozen=True)
class Quantile(Aggregate):
    """The value below which a share of the values lies, approximately; nulls and NaN are left out.

    With several shares the result is a list.
    """

    shares: tuple[float, ...]
    single: bool = True

    def __post_init__(self) -> None:
        if not self.shares or any(not 0 <= each <= 1 for each in self.shares):
            raise InvalidAggregate(
                f"Quantiles are asked for by shares from 0 to 1, such as 0.95, not {self.shares}."
            )

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """A sketch."""
        kind = arguments[0]
        if not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        ):
            raise InvalidAggregate(f"Quantiles are of numbers, and this column is {kind}.")
        return (pa.large_binary(),)

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """A float, or a list of them."""
        return pa.float64() if self.single else pa.list_(pa.float64())

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Sample values."""
        values = read_only(arguments[0].cast(pl.Float64).fill_null(float("nan")).to_numpy())
        return (_column(*_sampled(values, groups.starts, groups.ends)),)

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Put samples together."""
        return (_column(*_merged(*_words(columns[0]), groups.starts, groups.ends)),)

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The quantiles; null of no values."""
        found = _asked(*_words(columns[0]), read_only(np.array(self.shares)))
        if self.single:
            return pl.Series(found[:, 0]).fill_nan(None)
        lists = pl.Series(found.tolist(), dtype=pl.List(pl.Float64))
        there = pl.Series(~np.isnan(found[:, 0]))
        return lists.zip_with(there, pl.Series([None] * len(lists), dtype=lists.dtype))


def _words(column: pl.Series) -> "tuple[Int64s, Int64s]":
    data, places = to_bytes(column)
    words = np.frombuffer(data[places[0] : places[-1]].tobytes(), np.int64)
    return read_only(words), read_only((places - places[0]) // 8)


def _column(words: "Int64s", places: "Int64s") -> pl.Series:
    return from_bytes(words.view(np.uint8), places * 8)


@compiled
def _room(level: int, levels: int) -> int:
    return max(_SMALLEST, int(np.ceil(_K * (2.0 / 3.0) ** (levels - 1 - level))))


@compiled
def _compacted(samples: Any, count: int) -> Any:
    """Levels of samples, the lowest first, that have no more samples than there is room for."""
    while True:
        total, room = 0, 0
        for level in range(len(samples)):
            total += len(samples[level])
            room += _room(level, len(samples))
        if total <= room:
            break
        level = 0
        while len(samples[level]) <= _room(level, len(samples)):
            level += 1
        if level + 1 == len(samples):
            samples.append(np.empty(0, np.float64))
        ordered = np.sort(samples[level])
        paired = len(ordered) // 2 * 2
        coin = ((count * 0x9E3779B1) >> (level % 16 + 8)) & 1
        samples[level] = ordered[paired:].copy()
        samples[level + 1] = np.concatenate((samples[level + 1], ordered[coin:paired:2]))
    return samples


@compiled
def _write(samples: Any, count: int, least: float, greatest: float) -> "Int64s":
    total = 0
    for each in samples:
        total += len(each)
    words = np.empty(_SIZES + len(samples) + total, np.int64)
    floats = words.view(np.float64)
    words[0], words[_COUNT], words[_LEVELS] = _VERSION, count, len(samples)
    floats[_LEAST], floats[_GREATEST] = least, greatest
    at = _SIZES + len(samples)
    for level in range(len(samples)):
        ordered = np.sort(samples[level])
        words[_SIZES + level] = len(ordered)
        floats[at : at + len(ordered)] = ordered
        at += len(ordered)
    return words


@compiled
def _joined(parts: Any) -> "tuple[Int64s, Int64s]":
    places = np.zeros(len(parts) + 1, np.int64)
    for number in range(len(parts)):
        places[number + 1] = places[number] + len(parts[number])
    words = np.empty(places[-1], np.int64)
    for number in range(len(parts)):
        words[places[number] : places[number + 1]] = parts[number]
    return words, places


@compiled
def _sampled(values: "Floats", starts: "Int64s", ends: "Int64s") -> "tuple[Int64s, Int64s]":
    parts = [np.empty(0, np.int64) for _ in range(0)]
    for group in range(len(starts)):
        mine = values[starts[group] : ends[group]]
        mine = mine[~np.isnan(mine)]
        least, greatest = np.inf, -np.inf
        if len(mine):
            least, greatest = mine.min(), mine.max()
        samples = [mine]
        parts.append(_write(_compacted(samples, len(mine)), len(mine), least, greatest))
    return _joined(parts)


@compiled
def _merged(
    words: "Int64s", places: "Int64s", starts: "Int64s", ends: "Int64s"
) -> "tuple[Int64s, Int64s]":
    floats = words.view(np.float64)
    parts = [np.empty(0, np.int64) for _ in range(0)]
    for group in range(len(starts)):
        samples = [np.empty(0, np.float64)]
        count, least, greatest = 0, np.inf, -np.inf
        for row in range(starts[group], ends[group]):
            begin = places[row]
            count += words[begin + _COUNT]
            least = min(least, floats[begin + _LEAST])
            greatest = max(greatest, floats[begin + _GREATEST])
            levels = words[begin + _LEVELS]
            at = begin + _SIZES + levels
            for level in range(levels):
                size = words[begin + _SIZES + level]
                if level == len(samples):
                    samples.append(np.empty(0, np.float64))
                samples[level] = np.concatenate((samples[level], floats[at : at + size]))
                at += size
        parts.append(_write(_compacted(samples, count), count, least, greatest))
    return _joined(parts)


@compiled
def _asked(words: "Int64s", places: "Int64s", shares: "Floats") -> "Floats":
    """Of every sketch the values at these shares: the least with that share of all up to it."""
    floats = words.view(np.float64)
    found = np.full((len(places) - 1, len(shares)), np.nan)
    for row in range(len(places) - 1):
        begin = places[row]
        levels = words[begin + _LEVELS]
        first = begin + _SIZES + levels
        if first == places[row + 1]:
            continue
        values = floats[first : places[row + 1]]
        weights = np.empty(len(values), np.int64)
        at = 0
        for level in range(levels):
            size = words[begin + _SIZES + level]
            weights[at : at + size] = 1 << level
            at += size
        order = np.argsort(values)
        reached = np.cumsum(weights[order])
        for number in range(len(shares)):
            share = shares[number]
            if share == 0.0:
                found[row, number] = floats[begin + _LEAST]
            elif share == 1.0:
                found[row, number] = floats[begin + _GREATEST]
            else:
                rank = int(np.ceil(share * reached[-1]))
                position = int(np.searchsorted(reached, rank))
                found[row, number] = values[order[min(position, len(order) - 1)]]
    return found
