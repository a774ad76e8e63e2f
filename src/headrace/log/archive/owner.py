"""Whose archive it is: one data directory's at a time, so that no two brokers write into it.

The archive names its owner, and the owner notes that it has an archive. A broker whose archive is
suddenly empty thus knows that something is missing, such as a mount, and does not begin anew.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from headrace.log.archive.store import ArchiveStore
from headrace.log.archive.twins import TwinObject, Version
from headrace.log.disk import Disk
from headrace.log.errors import ArchiveRefused, storage_error
from headrace.log.framing import FileFormat, read_framed, write_framed

OWNER_FORMAT: Final = FileFormat(b"HRAO", 1)
"""How both notes begin."""

OWNER: Final = "archive.owner"
"""The name of the note in the data directory."""


class Identity(NamedTuple):
    """What an archive says about itself."""

    cluster_id: str
    owner: str
    """Made up by the data directory that the archive belongs to."""


def read_identity(store: ArchiveStore) -> Identity | None:
    """Whose archive it is; None if there is none at the place."""
    version = _twin(store).read()
    if not version.number:
        return None
    facts = json.loads(version.payloads[0])
    return Identity(facts["cluster_id"], facts["owner"])


def take_possession(store: ArchiveStore, cluster_id: str, data: Path, disk: Disk) -> None:
    """Make sure that an archive belongs to a data directory, and begin one if there is none.

    Raises `ArchiveRefused` if it belongs to another, or if it was begun and is not there.
    """
    note = _read_note(data, disk)
    found = read_identity(store)
    if found is None and note.get("begun"):
        raise ArchiveRefused(
            f"there is no archive at {store}, where this broker has archived before; mount or "
            "restore it, or correct the archive's location"
        )
    if found is None:
        owner = str(note.get("owner") or os.urandom(16).hex())
        # Noted first: should a crash come now, the archive is known to be this broker's.
        _write_note(data, disk, owner, begun=False)
        _write_identity(store, Identity(cluster_id, owner))
        _write_note(data, disk, owner, begun=True)
    elif found.owner != note.get("owner") and note.get("begun"):
        # Another location would cut this broker off from what it has archived.
        raise ArchiveRefused(
            f"the archive at {store} was this broker's and now belongs to another data directory, "
            "into which it was restored; nothing more is archived from here. If that one took "
            "over, stop this broker; otherwise stop that one, and take the archive back with "
            "headrace archive restore into a new directory. Leave the archive's location as it is"
        )
    elif found.owner != note.get("owner"):
        raise ArchiveRefused(
            f"the archive at {store} belongs to another data directory; give this broker, which "
            "has archived nothing yet, an archive location of its own"
        )
    elif not note.get("begun"):
        _write_note(data, disk, found.owner, begun=True)


def hand_over(store: ArchiveStore, data: Path, disk: Disk) -> None:
    """Give an archive to another data directory; its owner so far may no longer write into it."""
    found = read_identity(store)
    if found is None:
        raise ArchiveRefused(f"there is no archive at {store}; check the location")
    owner = os.urandom(16).hex()
    _write_note(data, disk, owner, begun=True)
    _write_identity(store, found._replace(owner=owner))


def _twin(store: ArchiveStore) -> TwinObject:
    return TwinObject(store, "identity", OWNER_FORMAT)


def _write_identity(store: ArchiveStore, identity: Identity) -> None:
    twin = _twin(store)
    encoded = json.dumps(identity._asdict()).encode()
    twin.write(Version(twin.read().number + 1, [encoded]))


def _read_note(data: Path, disk: Disk) -> Mapping[str, object]:
    try:
        (encoded,) = read_framed(disk, data / OWNER, OWNER_FORMAT, 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise storage_error(error, data / OWNER, "read") from error
    note: Mapping[str, object] = json.loads(encoded)
    return note


def _write_note(data: Path, disk: Disk, owner: object, *, begun: bool) -> None:
    encoded = json.dumps({"owner": owner, "begun": begun}).encode()
    try:
        write_framed(disk, data / OWNER, OWNER_FORMAT, [encoded])
    except OSError as error:
        raise storage_error(error, data / OWNER, "write") from error
