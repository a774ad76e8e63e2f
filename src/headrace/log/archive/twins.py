"""Small objects that are replaced again and again, and must never be lost to a broken write.

Each has two places. A write goes to the one that is not in use, is read back, and only then counts.
So a put that tears, fails half-way or is interrupted by a crash leaves the version before it.
"""

import json
from pathlib import Path
from typing import Final, NamedTuple

from headrace.log.archive.store import ArchiveStore
from headrace.log.errors import ArchiveDamaged, CorruptFile
from headrace.log.framing import FileFormat, frame, frames


class Version(NamedTuple):
    """One state of such an object."""

    number: int
    """Counts the writes; the highest one that is whole is in force."""
    payloads: list[bytes]


NOTHING: Final = Version(0, [])
"""What an object is before its first write."""


class TwinObject:
    """A small object in two places, of which the newer one that is whole counts."""

    def __init__(self, store: ArchiveStore, key: str, file_format: FileFormat) -> None:
        self._store = store
        self._key = key
        self._format = file_format

    def read(self) -> Version:
        """The version in force; `NOTHING` if there never was one.

        Raises `ArchiveDamaged` if there are objects but none is whole, and `UnsupportedFormat` if
        another version of Headrace wrote them.
        """
        second, first = self._read_place(0), self._read_place(1)
        whole = [version for version in (first, second) if version is not None and version.number]
        # The first write ever goes to one place; while it is not whole, nothing was in force.
        if second is not None and not whole:
            raise ArchiveDamaged(
                f"{self._key} cannot be read in either of its places in {self._store}; restore "
                "one of them from a copy"
            )
        return max(whole, default=NOTHING, key=lambda version: version.number)

    def write(self, version: Version) -> None:
        """Put a version that follows the one in force, and make sure that it is there.

        After a failure the same version may be written again, also with another content.
        """
        facts = {"number": version.number, "count": len(version.payloads)}
        entries = (json.dumps(facts).encode(), *version.payloads)
        data = self._format.header() + b"".join(map(frame, entries))
        place = self._place(version.number % 2)
        self._store.put(place, [data])
        if b"".join(self._store.get(place)) != data:
            raise ArchiveDamaged(
                f"{self._store} does not give back what was just put at {place}; check the store"
            )

    def keys(self) -> tuple[str, str]:
        """Both places."""
        return self._place(0), self._place(1)

    def _place(self, number: int) -> str:
        return f"{self._key}-{number}"

    def _read_place(self, number: int) -> Version | None:
        """What is in one place: None if nothing, a version without number if it is not whole."""
        try:
            data = b"".join(self._store.get(self._place(number)))
        except FileNotFoundError:
            return None
        try:
            self._format.check(data, Path(self._place(number)))
        except CorruptFile:
            return NOTHING
        found = [payload for _, payload in frames(data)]
        if not found:
            return NOTHING
        facts = json.loads(found[0])
        return Version(facts["number"], found[1:]) if facts["count"] == len(found) - 1 else NOTHING
