"""What opening a log found, for people and for tests."""

import logging
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening a log took, and what it cost."""

    clean: bool = True
    """Whether the log was found as it was closed, or is new."""

    scanned_bytes: int = 0
    """How much had to be read and checked."""

    truncated_bytes: int = 0
    """How much was cut off, dropped segments included."""

    truncated_from: int | None = None
    """The first offset that may have existed before the cut; None if nothing was cut."""

    dropped_segments: tuple[str, ...] = ()
    """Segments that could not follow the place of the cut, and were removed."""

    rebuilt_indexes: tuple[str, ...] = ()
    """Segments whose index was missing or doubtful."""

    problems: tuple[str, ...] = ()
    """Everything out of the ordinary, in sentences; each was also logged."""


@dataclass(slots=True)
class RecoveryNotes:
    """A `Recovery` in the making."""

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    truncated_from: int | None = None
    dropped_segments: list[str] = field(default_factory=list)
    rebuilt_indexes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def problem(self, sentence: str) -> None:
        """Note and log something out of the ordinary."""
        logger.warning("%s", sentence)
        self.problems.append(sentence)

    def cut(self, size: int, offset: int) -> None:
        """Note that bytes were lost, which began at an offset."""
        self.truncated_bytes += size
        if self.truncated_from is None or offset < self.truncated_from:
            self.truncated_from = offset

    def finish(self, *, clean: bool) -> Recovery:
        """The result."""
        return Recovery(
            clean=clean,
            scanned_bytes=self.scanned_bytes,
            truncated_bytes=self.truncated_bytes,
            truncated_from=self.truncated_from,
            dropped_segments=tuple(self.dropped_segments),
            rebuilt_indexes=tuple(self.rebuilt_indexes),
            problems=tuple(self.problems),
        )
