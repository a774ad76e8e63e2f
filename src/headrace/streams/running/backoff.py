"""How long to wait before the next try."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double from the first to the longest."""

    first_ms: int
    longest_ms: int

    def pause_seconds(self, failures: int) -> float:
        """The pause after so many failures in a row.

        >>> [Backoff(1000, 5000).pause_seconds(n) for n in (1, 2, 3, 4, 400)]
        [1.0, 2.0, 4.0, 5.0, 5.0]
        """
        # Bounded, since so many doublings make a number that no float can hold.
        doubled = self.first_ms << min(failures - 1, 40)
        return min(doubled, self.longest_ms) / 1000
