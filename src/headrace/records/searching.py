"""Whether any of many strings is anywhere in some bytes, whatever these bytes are."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from headrace.records.header import Readable
from headrace.records.kernels import searching as kernels
from headrace.records.kernels.compiled import read_only

SHORTEST: Final = kernels.WINDOW
"""Strings of fewer bytes are found everywhere by chance and are not searched for."""


class Search:
    """A search for strings of at least `SHORTEST` bytes; shorter ones are left out.

    Costs one pass over the data, however many strings there are.
    """

    def __init__(self, strings: Iterable[bytes]) -> None:
        meant = sorted({string for string in strings if len(string) >= SHORTEST})
        self.strings = len(meant)
        """How many different strings are searched for."""
        self.longest = max(map(len, meant), default=0)
        """Bytes of the longest one."""
        self._bits = max(2 * len(meant), 2).bit_length()
        self._patterns = kernels.Patterns(
            np.cumsum(np.fromiter(map(len, meant), np.int64, len(meant))),
            read_only(b"".join(meant), np.uint8),
            np.zeros(len(meant), np.int64),
            np.zeros(len(meant), np.uint64),
            np.zeros(1 << kernels.SKETCH_BITS, np.uint8),
            np.zeros(1 << self._bits, np.int64),
        )
        kernels.prepare(self._patterns, self._bits)

    def count(self, data: Readable, seen: int = 0) -> int:
        """How often strings are in `data`, not counting those that end within `seen` bytes."""
        if not self.strings:
            return 0
        array = read_only(data, np.uint8)
        return int(kernels.count_occurrences(self._patterns, self._bits, array, seen))
