"""What an archive asks of the place where it keeps its objects.

That is little: whole objects are put and got under a key, listed and deleted. It does not rely on
a put being atomic: see `twins`.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

CHUNK_BYTES: Final = 4 << 20
"""How much of an object is in memory at a time."""


class StoredObject(NamedTuple):
    """An object that a store has."""

    key: str
    size: int


class ArchiveStore(Protocol):
    """Objects under keys; a key is a path of letters, digits, '-', '.' and '/'.

    All methods block, may be called from any thread, and raise `ArchiveUnavailable` if the store
    does not do what it should.
    """

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        """Store an object, in place of any that has the key; on return it is safe."""
        ...

    def get(self, key: str) -> Iterator[bytes]:
        """The bytes of an object, piece by piece; `FileNotFoundError` if there is none."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object whose key begins with the path `prefix`; an empty one means all."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        ...
