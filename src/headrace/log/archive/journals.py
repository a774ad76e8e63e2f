"""Copies of a broker's journals in the archive: topics, committed offsets, producer ids.

Segments alone are no broker. A copy holds all journals of one moment, and is taken before any
segment is uploaded that was sealed by then: so the archive knows of every topic, and every producer
id, that it has records of.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.log.archive.store import ArchiveStore
from headrace.log.archive.twins import NOTHING, TwinObject, Version
from headrace.log.directory import JOURNAL_SUFFIX
from headrace.log.disk import Disk
from headrace.log.errors import ArchiveDamaged, storage_error
from headrace.log.framing import FileFormat, read_file
from headrace.log.journal import JOURNAL_FORMAT, entries_in

JOURNALS_FORMAT: Final = FileFormat(b"HRAJ", 1)
"""How a copy begins."""


@dataclass(frozen=True, slots=True)
class JournalsCopy:
    """All journals, as they were at one moment."""

    taken_ms: int
    journals: Mapping[str, bytes]
    """The files' bytes by their names without ending."""

    def entries(self, name: str) -> list[bytes]:
        """The entries of a journal; none if there is no such journal.

        Raises `UnsupportedFormat` if another version of Headrace wrote it.
        """
        data = self.journals.get(name)
        if data is None:
            return []
        JOURNAL_FORMAT.check(data, Path(f"{name}{JOURNAL_SUFFIX}"))
        return list(entries_in(data))


class JournalArchive:
    """The copy in an archive; used by one thread at a time."""

    def __init__(self, store: ArchiveStore) -> None:
        self._twin = TwinObject(store, "journals", JOURNALS_FORMAT)
        self._version: Version | None = None

    def read(self) -> JournalsCopy | None:
        """The copy in force; None if there is none."""
        version = self._version = self._twin.read()
        if not version.number:
            return None
        try:
            facts = json.loads(version.payloads[0])
            contents = zip(facts["names"], version.payloads[1:], strict=True)
            return JournalsCopy(int(facts["taken_ms"]), dict(contents))
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveDamaged(f"the journals' copy cannot be understood: {error!r}") from error

    def write(self, copy: JournalsCopy) -> bool:
        """Replace the copy, unless it says the same already; return whether it was replaced."""
        if self._version is None:
            self.read()
        before = self._version or NOTHING
        contents = list(copy.journals.values())
        if before.payloads[1:] == contents and before.number:
            return False
        facts = {"taken_ms": copy.taken_ms, "names": list(copy.journals)}
        version = Version(before.number + 1, [json.dumps(facts).encode(), *contents])
        self._twin.write(version)
        self._version = version
        return True


def copy_journals(data: Path, disk: Disk, now_ms: int) -> JournalsCopy:
    """Read all journals of a data directory, from any thread, also while they grow."""
    try:
        names = sorted(name for name in disk.names(data) if name.endswith(JOURNAL_SUFFIX))
        files = {name.removesuffix(JOURNAL_SUFFIX): read_file(disk, data / name) for name in names}
    except OSError as error:
        raise storage_error(error, data, "read the journals in") from error
    return JournalsCopy(now_ms, files)
