"""From the location that somebody writes down to the store that is there."""

from pathlib import Path

from headrace.log.archive.directory_store import DirectoryStore
from headrace.log.archive.store import ArchiveStore
from headrace.log.disk import SYSTEM_DISK, Disk


def open_store(location: str, *, disk: Disk = SYSTEM_DISK) -> ArchiveStore:
    """The store at a location: a path, or a URL such as `s3://bucket/prefix`.

    Nothing is contacted yet. Raises `ArchiveRefused` if the location makes no sense, or needs a
    package that is not installed.
    """
    scheme, separator, rest = location.partition("://")
    if not separator:
        return DirectoryStore(Path(location).absolute(), disk=disk)
    if scheme == "file":
        return DirectoryStore(Path(rest), disk=disk)
    from headrace.log.archive.object_store import ObjectStore

    return ObjectStore(location)
