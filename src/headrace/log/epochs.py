"""Which leader epoch began at which offset, so that readers can notice a log that was cut."""

from collections.abc import Iterable
from typing import Final, NamedTuple

UNKNOWN: Final = -1
"""Stands for an epoch or an offset that the log knows nothing of."""


class EpochStart(NamedTuple):
    """An epoch and the first offset that belongs to it."""

    epoch: int
    offset: int


FIRST_EPOCH: Final = EpochStart(0, 0)
"""What every log begins with."""


class LeaderEpochs:
    """The history of a log's epochs, oldest first; the last is the current one.

    On one node there are no elections: a new epoch says that the log may have lost its end, and
    that the offsets from there on hold other records than before.
    """

    __slots__ = ("_starts",)

    def __init__(self, starts: Iterable[EpochStart] = ()) -> None:
        self._starts = list(starts) or [FIRST_EPOCH]

    @property
    def current(self) -> int:
        """The epoch that is stamped into batches."""
        return self._starts[-1].epoch

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        """The whole history."""
        return tuple(self._starts)

    def advance(self, end_offset: int) -> None:
        """Begin a new epoch at the end of the log, which may lie before it once did."""
        epoch = self.current + 1
        # An epoch in which nothing was written, or nothing was left, needs no place of its own.
        self._starts = [start for start in self._starts if start.offset < end_offset]
        self._starts.append(EpochStart(epoch, end_offset))

    def adopt(self, epoch: int, offset: int) -> bool:
        """Take an epoch from a batch, where the history itself is lost; False if it goes back."""
        if epoch > self.current:
            self._starts = [start for start in self._starts if start.offset < offset]
            self._starts.append(EpochStart(epoch, offset))
        return epoch == self.current

    def at(self, offset: int) -> int:
        """The epoch that a batch at an offset was written in."""
        for start in reversed(self._starts):
            if start.offset <= offset:
                return start.epoch
        return self._starts[0].epoch

    def reach(self, offset: int) -> tuple[int, int | None]:
        """The epoch that a batch at an offset was written in, and where the next one begins."""
        following = [start.offset for start in self._starts if start.offset > offset]
        return self.at(offset), min(following, default=None)

    def end_of(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """The last epoch that is not beyond the one asked for, and the offset where it ended.

        Answers as Kafka does: an epoch of the future is unknown; one from before the history ended
        where the history begins.
        """
        if epoch == self.current:
            return epoch, end_offset
        if epoch > self.current or epoch < 0:
            return UNKNOWN, UNKNOWN
        following = next(start for start in self._starts if start.epoch > epoch)
        before = [start.epoch for start in self._starts if start.epoch <= epoch]
        return (before[-1] if before else epoch), following.offset
