"""Looking at an archive from outside: what it has, and whether all of it is whole."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from headrace.log.archive.journals import JournalArchive
from headrace.log.archive.manifest import MANIFEST_FORMAT, PARTITIONS, ArchivedPartition, Manifest
from headrace.log.archive.owner import Identity, read_identity
from headrace.log.archive.store import ArchiveStore, StoredObject
from headrace.log.archive.twins import TwinObject
from headrace.log.archive.writer import read_manifest, verify
from headrace.log.errors import ArchiveDamaged, ArchiveRefused


class Trouble(StrEnum):
    """What can be wrong with an object."""

    DAMAGED = "damaged"
    """It is missing, or not what was put there: records are lost."""

    GARBAGE = "garbage"
    """Nothing refers to it: it costs money, and the broker removes it when it starts."""


class Finding(NamedTuple):
    """An object that is not as it should be."""

    trouble: Trouble
    partition: ArchivedPartition | None
    """Whose records it has; None if nothing refers to it."""
    detail: str
    """What is wrong with which object."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What an archive has."""

    identity: Identity
    journals_taken_ms: int | None
    """When the journals were copied last; None if never."""
    manifests: list[Manifest]
    """Of every partition, by topic and number."""
    objects: list[StoredObject]
    """Every object, with those that nothing refers to."""


def survey(store: ArchiveStore) -> Survey:
    """Find out what an archive has, without reading any segment.

    Raises `ArchiveRefused` if there is no archive, and `ArchiveDamaged` if what describes it
    cannot be read.
    """
    identity = read_identity(store)
    if identity is None:
        raise ArchiveRefused(f"there is no archive at {store}; check the location")
    journals = JournalArchive(store).read()
    objects = list(store.list(""))
    manifests = []
    for path in _partition_paths(objects):
        manifest = read_manifest(TwinObject(store, f"{path}/manifest", MANIFEST_FORMAT))
        if manifest is not None:
            manifests.append(manifest)
    manifests.sort(key=lambda each: (each.partition.topic, each.partition.index))
    return Survey(identity, None if journals is None else journals.taken_ms, manifests, objects)


def examine(
    store: ArchiveStore, surveyed: Survey, progress: Callable[[int], None]
) -> Iterator[Finding]:
    """Read every object of an archive and yield those that are not as they should be.

    `progress` is told the size of each segment that was read.
    """
    known = {key for name in ("identity", "journals") for key in (f"{name}-0", f"{name}-1")}
    for manifest in surveyed.manifests:
        partition = manifest.partition
        end_offset = 0
        known.update(TwinObject(store, f"{partition.path}/manifest", MANIFEST_FORMAT).keys())
        for segment in manifest.segments:
            key = partition.key(segment)
            known.add(key)
            if segment.base_offset < end_offset:
                detail = f"{key} begins at offset {segment.base_offset}, before {end_offset}"
                yield Finding(Trouble.DAMAGED, partition, detail)
            end_offset = segment.end_offset
            try:
                verify(store, key, segment)
            except ArchiveDamaged as error:
                yield Finding(Trouble.DAMAGED, partition, str(error))
            progress(segment.size)
    for found in surveyed.objects:
        if found.key not in known:
            detail = f"{found.key}: {found.size} bytes that nothing refers to"
            yield Finding(Trouble.GARBAGE, None, detail)


def find_lost(surveyed: Survey) -> Iterator[Finding]:
    """The objects that are missing or have another size, without reading any of them."""
    sizes = {found.key: found.size for found in surveyed.objects}
    for manifest in surveyed.manifests:
        for segment in manifest.live_segments:
            key = manifest.partition.key(segment)
            if sizes.get(key) != segment.size:
                state = (
                    f"has {sizes[key]} bytes, not {segment.size}" if key in sizes else "is missing"
                )
                last_offset = segment.end_offset - 1
                detail = f"{key} {state}: offsets {segment.base_offset} to {last_offset} are lost"
                yield Finding(Trouble.DAMAGED, manifest.partition, detail)


def _partition_paths(objects: list[StoredObject]) -> list[str]:
    """The paths of partitions that have any object."""
    paths = {
        found.key.rpartition("/")[0]
        for found in objects
        if found.key.startswith(f"{PARTITIONS}/") and "/" in found.key
    }
    return sorted(paths)
