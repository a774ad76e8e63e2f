"""Mergers of many overlapping stretches of rows, without merging each from its rows.

Stretches are put together from nodes, each the merger of two smaller ones, down to single rows: of
n rows a stretch needs at most 2 log2(n) nodes, and only those are computed that some stretch needs.
"""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headrace.streams.windows.groups import Groups
from headrace.streams.windows.measures import Measures

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s


def merged_stretches(
    measures: Measures, parts: pl.DataFrame, begins: "Int64s", ends: "Int64s"
) -> pl.DataFrame:
    """The columns to keep of each stretch of rows from `begins` up to `ends`; none is empty."""
    wanted = _taken(begins, ends)
    needed = _needed(wanted)
    nodes = [parts.select(measures.columns)[needed[0]]]
    for level in range(1, len(needed)):
        pairs = np.stack([needed[level] * 2, needed[level] * 2 + 1], 1).ravel()
        rows = nodes[-1][np.searchsorted(needed[level - 1], pairs)]
        groups = Groups(None, np.arange(0, len(pairs), 2), len(pairs))
        nodes.append(pl.DataFrame(measures.combined(rows, groups)))
    offsets = np.cumsum([0, *(each.height for each in nodes)])
    places = [
        offset + np.searchsorted(held, node)
        for offset, held, (_, node) in zip(offsets, needed, wanted, strict=False)
    ]
    stretches = np.concatenate([each for each, _ in wanted])
    order = np.argsort(stretches, kind="stable")
    rows = pl.concat(nodes)[np.concatenate(places)[order]]
    starts = np.searchsorted(stretches[order], np.arange(len(begins)))
    return pl.DataFrame(measures.combined(rows, Groups(None, starts, len(order))))


def _taken(begins: "Int64s", ends: "Int64s") -> "list[tuple[Int64s, Int64s]]":
    """Of every level, which stretch takes which node."""
    found: list[tuple[Int64s, Int64s]] = []
    numbers, low, high = np.arange(len(begins)), begins, ends
    while len(numbers):
        left, right = (low & 1) == 1, (high & 1) == 1
        stretches = np.concatenate([numbers[left], numbers[right]])
        found.append((stretches, np.concatenate([low[left], high[right] - 1])))
        low, high = (low + 1) >> 1, high >> 1
        going = low < high
        numbers, low, high = numbers[going], low[going], high[going]
    return found


def _needed(wanted: "list[tuple[Int64s, Int64s]]") -> "list[Int64s]":
    """Of every level, the nodes that are taken or part of one that is needed, sorted."""
    found: list[Int64s] = []
    above = np.empty(0, np.int64)
    for _, nodes in reversed(wanted):
        above = np.unique(np.concatenate([nodes, above * 2, above * 2 + 1]))
        found.append(above)
    return found[::-1]
