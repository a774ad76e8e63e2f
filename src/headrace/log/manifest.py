"""What a swap of segments is about to do, written down before it begins.

Once a manifest is on the disk, the swap happens: whoever opens the log after a crash carries it
out. That may be done any number of times, as far as it was not done yet. Before, it never was.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from headrace.log.checkpoint import KnownSegment
from headrace.log.disk import Disk
from headrace.log.errors import CorruptFile
from headrace.log.framing import FileFormat, read_framed, write_framed
from headrace.log.segment import INDEX_SUFFIX, LOG_SUFFIX, segment_name

MANIFEST_FORMAT: Final = FileFormat(b"HRRW", 1)
"""How a manifest begins."""

MANIFEST: Final = "rewriting"
"""The name of the file in a partition's directory."""

REWRITTEN: Final = ".rewritten"
"""Ends the names of files that wait to take a segment's place; without a manifest, they go."""

_FRAMES: Final = 1


class Replacement(NamedTuple):
    """A pair of files that takes the place of one or more consecutive segments."""

    known: KnownSegment
    """The segment that there will be."""

    replaced: tuple[int, ...]
    """The first offsets of the segments that were there; the first keeps its name."""

    log_file: str
    """The name under which its batches wait."""

    index_file: str
    """The name under which its index waits."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The replacements of one swap."""

    replacements: Sequence[Replacement]

    def write(self, disk: Disk, directory: Path) -> None:
        """Write it; blocks until it is on the disk, and with it the names of the waiting files."""
        # First, lest there be a manifest whose files have no names yet.
        disk.sync_directory(directory)
        facts = [
            {
                "known": list(each.known),
                "replaced": list(each.replaced),
                "files": [each.log_file, each.index_file],
            }
            for each in self.replacements
        ]
        write_framed(disk, directory / MANIFEST, MANIFEST_FORMAT, [json.dumps(facts).encode()])

    @classmethod
    def read(cls, disk: Disk, directory: Path) -> Self:
        """Read it.

        Raises `FileNotFoundError` if there is none, `CorruptFile` if it is damaged and
        `UnsupportedFormat` if another version wrote it.
        """
        path = directory / MANIFEST
        (encoded,) = read_framed(disk, path, MANIFEST_FORMAT, _FRAMES)
        try:
            return cls(
                tuple(
                    Replacement(
                        KnownSegment(*map(int, each["known"])),
                        tuple(map(int, each["replaced"])),
                        *map(str, each["files"]),
                    )
                    for each in json.loads(encoded)
                )
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFile(f"{path} cannot be understood: {error!r}") from error

    def carry_out(self, disk: Disk, directory: Path, names: Iterable[str]) -> None:
        """Give the files that still wait, of those in `names`, the names of segments."""
        waiting = set(names)
        for each in self.replacements:
            base_offset = each.known.base_offset
            for name, suffix in ((each.log_file, LOG_SUFFIX), (each.index_file, INDEX_SUFFIX)):
                if name in waiting:
                    disk.replace(directory / name, directory / segment_name(base_offset, suffix))

    def remove_replaced(self, disk: Disk, directory: Path) -> None:
        """Remove the files of segments that went into another."""
        for each in self.replacements:
            for base_offset in each.replaced:
                if base_offset != each.known.base_offset:
                    disk.unlink(directory / segment_name(base_offset, LOG_SUFFIX))
                    disk.unlink(directory / segment_name(base_offset, INDEX_SUFFIX))

    def amend(self, known: Iterable[KnownSegment]) -> Sequence[KnownSegment]:
        """What a checkpoint from before the swap would say after it.

        Segments that are not in it any more were retired since, and do not come back.
        """
        rows = {row.base_offset: row for row in known}
        for each in self.replacements:
            if [rows.pop(base) for base in each.replaced if base in rows]:
                rows[each.known.base_offset] = each.known
        return [rows[base_offset] for base_offset in sorted(rows)]
