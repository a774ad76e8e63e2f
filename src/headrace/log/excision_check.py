"""A look at every file of a data directory, to see that what was erased is really gone.

Whatever looks like record batches is decoded, compressed or not, whichever topic it belongs to; and
every file is searched byte by byte for what the removed records held.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.log.disk import Disk
from headrace.log.excision import CheckReport, ExcisionRefused, SegmentFile, Sighting
from headrace.log.excision_rewrite import PIECE_BYTES, Progress, pieces
from headrace.log.handles import FileHandle
from headrace.records import HEADER_SIZE, RecordError, read_header
from headrace.records.header import MAGIC

if TYPE_CHECKING:
    from headrace.records.matching import Criteria
    from headrace.records.searching import Search

MAX_EVIDENCE_BYTES: Final = 128 << 20
"""How much memory removed keys and values may take that are remembered to be searched for."""

_OVERHEAD: Final = 100


class Evidence:
    """Keys and values of removed records, as far as memory allows."""

    def __init__(self) -> None:
        self._strings: set[bytes] = set()
        self._bytes = 0

    def add(self, strings: Iterable[bytes | None]) -> None:
        """Remember strings to be searched for."""
        from headrace.records.searching import SHORTEST

        for string in strings:
            if string is None or len(string) < SHORTEST or string in self._strings:
                continue
            if self._bytes > MAX_EVIDENCE_BYTES:
                return
            self._strings.add(string)
            self._bytes += _OVERHEAD + len(string)

    def add_rows(self, rows: Any) -> None:
        """Remember what records held, given as an Arrow table."""
        for column in ("key", "value"):
            self.add(rows[column].to_pylist())

    def search(self) -> "Search":
        """A search for all of it."""
        from headrace.records.searching import Search

        return Search(self._strings)


class DirectoryCheck:
    """One look at a data directory.

    `until` says how the names of files begin that hold the partitions that were rewritten, and for
    each the offset from which on records were written too late to be removed.
    """

    def __init__(
        self,
        disk: Disk,
        root: Path,
        until: Mapping[str, int],
        criteria: "Criteria",
        evidence: Evidence,
        progress: Progress,
    ) -> None:
        self._disk = disk
        self._root = root
        self._until = until
        self._criteria = criteria
        self._search = evidence.search()
        self._progress = progress
        self._files = self._bytes = self._later = 0
        self._left: list[Sighting] = []
        self._unreadable: list[str] = []
        self._elsewhere: list[Sighting] = []
        self._alike: list[Sighting] = []

    def run(self) -> CheckReport:
        """Look at everything."""
        for path in _files_below(self._root):
            # Files come and go: the broker is at work.
            with suppress(FileNotFoundError):
                self._look_at(path)
        return CheckReport(
            self._files,
            self._bytes,
            self._search.strings,
            self._left,
            self._unreadable,
            self._later,
            self._elsewhere,
            self._alike,
        )

    def _look_at(self, path: Path) -> None:
        name = str(path.relative_to(self._root))
        until = next(
            (offset for prefix, offset in self._until.items() if name.startswith(prefix)), None
        )
        handle = FileHandle(self._disk, path, self._disk.open(path))
        size = self._disk.size(handle.descriptor)
        self._files += 1
        self._bytes += size
        occurrences = self._count_occurrences(handle, size)
        early = late = 0
        if is_log := _begins_with_batch(handle):
            segment = SegmentFile(str(path), 0, size, 0)
            try:
                early, late = self._count_records(handle, segment, until)
            except ExcisionRefused:
                if until is not None:
                    self._unreadable.append(name)
                    occurrences = 0  # it has failed already, and nobody can tell whose they are
        self._later += late
        self._progress(size)
        sighting = Sighting(name, early, occurrences)
        if until is None:
            if early or occurrences:
                self._elsewhere.append(sighting)
        elif early or (occurrences and not is_log):
            self._left.append(sighting)
        elif occurrences and not late:
            # Every record was decoded, and none is one of those that are to go.
            self._alike.append(sighting)

    def _count_records(
        self, handle: FileHandle, segment: SegmentFile, until: int | None
    ) -> tuple[int, int]:
        """How many records are as those that are to be gone, before `until` and from there on."""
        from headrace.records.matching import find

        early = late = 0
        for _, piece in pieces(handle, segment, partial_tail=True):
            try:
                rows = find(piece, self._criteria).rows
            except RecordError as error:
                raise ExcisionRefused(str(error)) from error
            for offset in rows["offset"].to_pylist():
                if until is None or offset < until:
                    early += 1
                else:
                    late += 1
            self._progress(0)
        return early, late

    def _count_occurrences(self, handle: FileHandle, size: int) -> int:
        """How often the file has what removed records held, in one piece."""
        occurrences = 0
        if not self._search.strings:
            return occurrences
        carried = b""
        for position in range(0, size, PIECE_BYTES):
            piece = handle.read(min(PIECE_BYTES, size - position), position)
            occurrences += self._search.count(carried + piece, len(carried))
            overlap = max(self._search.longest - 1, 0)
            carried = (carried + piece)[-overlap:] if overlap else b""
            self._progress(0)
        return occurrences


def size_below(root: Path) -> int:
    """Bytes of all files of a directory, as far as they are still there."""
    total = 0
    for path in _files_below(root):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _files_below(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path


def _begins_with_batch(handle: FileHandle) -> bool:
    beginning = handle.read(HEADER_SIZE, 0)
    if len(beginning) < HEADER_SIZE:
        return False
    header = read_header(beginning)
    return header.magic == MAGIC and header.size >= HEADER_SIZE and header.base_offset >= 0
