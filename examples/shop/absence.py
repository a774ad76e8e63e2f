"""When the restless member leaves its group and when it comes back."""


class Absence:
    """Away for a third of each cycle, but it leaves only a group that has come to rest.

    A librdkafka consumer that is closed while it waits to join sends no farewell, and its group
    would wait for it until its session ends.

    >>> absence = Absence(cycle_seconds=9)
    >>> moments = ((2, True), (3, False), (4, True), (7, False))
    >>> [absence.changes(elapsed, stable) for elapsed, stable in moments]
    [False, False, True, True]
    """

    def __init__(self, cycle_seconds: float) -> None:
        self._third = cycle_seconds / 3
        self._due = self._third
        self.away = False
        """Whether the member is away now."""

    def changes(self, elapsed: float, stable: bool) -> bool:
        """Whether the member leaves or comes back at this moment; `away` then says which."""
        if elapsed < self._due or not (self.away or stable):
            return False
        self.away = not self.away
        self._due = elapsed + (self._third if self.away else 2 * self._third)
        return True
