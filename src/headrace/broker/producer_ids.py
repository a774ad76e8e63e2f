"""Producer ids: never given out twice, not even over a crash."""

import orjson

from headrace.log import DataDirectory

BLOCK = 1000
"""Ids are reserved in blocks, so that a journal entry serves many producers."""


class ProducerIds:
    """Hands out producer ids from blocks that were reserved in a journal first."""

    def __init__(self, directory: DataDirectory) -> None:
        self.journal = directory.journal("producer-ids")
        self._reserved = 0
        for entry in self.journal.entries():
            self._reserved = max(self._reserved, orjson.loads(entry)["reserved"])
        self._next = self._reserved

    def allocate(self) -> int:
        """A new id; to be used once the journal is durable."""
        if self._next == self._reserved:
            reserved = self._reserved + BLOCK
            self.journal.append(orjson.dumps({"version": 1, "reserved": reserved}))
            self._reserved = reserved
        allocated = self._next
        self._next += 1
        return allocated

    def compact_if_due(self) -> None:
        """Rewrite the journal when it has grown long."""
        if self.journal.entry_count > 100:
            self.journal.rewrite([orjson.dumps({"version": 1, "reserved": self._reserved})])
