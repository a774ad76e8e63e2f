"""A group's account of what it has processed: every record once, none left out."""

from collections import Counter


class Ledger:
    """Which offsets a group's members have processed, together.

    A partition's offsets have no gaps here, so the next one to expect is enough to tell a record
    that is new from one that was delivered before and from one that was skipped.
    """

    def __init__(self) -> None:
        self._next: Counter[tuple[str, int]] = Counter()
        self.processed: Counter[str] = Counter()
        """Records per topic, each counted once."""
        self.redelivered = 0
        """Records that came again, as they may after a member stops without committing."""
        self.missing = 0
        """Records that never came although a later one of their partition did."""

    def enter(self, topic: str, partition: int, offset: int) -> bool:
        """Note a record; False if the group has already processed it.

        >>> ledger = Ledger()
        >>> [ledger.enter("orders", 0, offset) for offset in (0, 1, 1, 3)]
        [True, True, False, True]
        >>> ledger.processed["orders"], ledger.redelivered, ledger.missing
        (3, 1, 1)
        """
        expected = self._next[topic, partition]
        if offset < expected:
            self.redelivered += 1
            return False
        self.missing += offset - expected
        self._next[topic, partition] = offset + 1
        self.processed[topic] += 1
        return True
