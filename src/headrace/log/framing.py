"""The format that all of Headrace's own files share; segments alone are Kafka's.

A file begins with four letters that say what it is, a version, and their checksum. Entries follow,
each with its length and a checksum of both, so that an interrupted write is always noticed:

    magic 4 | version 2 | reserved 2 | crc32c 4   then any number of   length 4 | crc32c 4 | payload

All numbers are little-endian.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.log.disk import Disk, read_all, write_all
from headrace.log.errors import CorruptFile, UnsupportedFormat
from headrace.records import Readable
from headrace.records.checksum import crc32c

_HEADER: Final = struct.Struct("<4sHH")
_CHECKSUM: Final = struct.Struct("<I")
_FRAME: Final = struct.Struct("<II")

HEADER_SIZE: Final = _HEADER.size + _CHECKSUM.size
"""Bytes before the first frame."""

FRAME_SIZE: Final = _FRAME.size
"""Bytes that a frame adds to its payload."""

TEMPORARY: Final = ".tmp"
"""Files with this suffix were being written when the process ended; they may be removed."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """What a file says it is."""

    magic: bytes
    version: int
    older: tuple[int, ...] = ()
    """Versions that are no longer written but can still be read."""

    def header(self) -> bytes:
        """The bytes that a file of this format begins with."""
        fields = _HEADER.pack(self.magic, self.version, 0)
        return fields + _CHECKSUM.pack(crc32c(fields))

    def check(self, data: Readable, path: Path) -> int:
        """Refuse a file that does not begin as this format does; return its version."""
        if len(data) < HEADER_SIZE:
            raise CorruptFile(f"{path} is cut short: it ends within its first {HEADER_SIZE} bytes")
        magic: bytes
        version: int
        magic, version, _ = _HEADER.unpack_from(data)
        (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size)
        if checksum != crc32c(memoryview(data)[: _HEADER.size]):
            raise CorruptFile(
                f"{path} is damaged or no file of Headrace's: its first {HEADER_SIZE} bytes do not "
                "match their checksum; restore it from a copy or move it away"
            )
        if magic != self.magic:
            raise UnsupportedFormat(
                f"{path} begins with {magic!r} instead of {self.magic!r}: it has taken the place "
                "of another file; restore that from a copy or move this one away"
            )
        if version != self.version and version not in self.older:
            raise UnsupportedFormat(
                f"{path} has format version {version} but this Headrace knows {self.version}; "
                "use the Headrace version that wrote it"
            )
        return version


def frame(payload: Readable) -> bytes:
    """Wrap one entry."""
    length = _CHECKSUM.pack(len(payload))
    return length + _CHECKSUM.pack(crc32c(payload, crc32c(length))) + bytes(payload)


def frames(data: Readable, position: int = HEADER_SIZE) -> Iterator[tuple[int, bytes]]:
    """Yield where each entry ends, and the entry, up to the first that is torn or damaged."""
    view = memoryview(data)
    while position + FRAME_SIZE <= len(view):
        length, checksum = _FRAME.unpack_from(view, position)
        start = position + FRAME_SIZE
        position = start + length
        if position > len(view):
            return
        payload = bytes(view[start:position])
        if crc32c(payload, crc32c(_CHECKSUM.pack(length))) != checksum:
            return
        yield position, payload


def write_framed(
    disk: Disk, path: Path, file_format: FileFormat, payloads: Iterable[bytes]
) -> None:
    """Replace a whole file so that a crash leaves the old one or the new one.

    Blocks until the new one is on the disk under its name.
    """
    disk.close(stage(disk, path, file_format, payloads)[0])
    publish(disk, path)


def stage(
    disk: Disk, path: Path, file_format: FileFormat, payloads: Iterable[bytes]
) -> tuple[int, int]:
    """Write and sync a file's successor beside it; return its descriptor and its size."""
    data = bytearray(file_format.header())
    for payload in payloads:
        data += frame(payload)
    temporary = path.with_name(path.name + TEMPORARY)
    descriptor = disk.create(temporary)
    try:
        write_all(disk, descriptor, data, 0)
        disk.sync(descriptor)
    except BaseException:
        disk.close(descriptor)
        disk.unlink(temporary)
        raise
    return descriptor, len(data)


def publish(disk: Disk, path: Path) -> None:
    """Put a staged file in its predecessor's place."""
    disk.replace(path.with_name(path.name + TEMPORARY), path)
    disk.sync_directory(path.parent)


def read_file(disk: Disk, path: Path) -> bytes:
    """Read a whole file; `FileNotFoundError` if there is none."""
    descriptor = disk.open(path)
    try:
        return read_all(disk, descriptor, disk.size(descriptor), 0)
    finally:
        disk.close(descriptor)


def read_framed(
    disk: Disk, path: Path, file_format: FileFormat, count: int | Mapping[int, int]
) -> list[bytes]:
    """Read a file that `write_framed` wrote with `count` entries; `CorruptFile` if it has not.

    Where older versions had another number of entries, `count` tells it by version.
    """
    data = read_file(disk, path)
    version = file_format.check(data, path)
    if not isinstance(count, int):
        count = count[version]
    payloads = [payload for _, payload in frames(data)]
    if len(payloads) != count:
        raise CorruptFile(f"{path} is damaged: {len(payloads)} of {count} entries can be read")
    return payloads
