"""An archive in an object store, through `obstore`: S3 and its likes, GCS, Azure.

Credentials, region and endpoint come from where the store's own tools look for them: environment
variables such as `AWS_ACCESS_KEY_ID` and `AWS_ENDPOINT`, or the machine's role.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, Final

from headrace.log.archive.store import CHUNK_BYTES, StoredObject
from headrace.log.errors import ArchiveRefused, ArchiveUnavailable

_RETRY_SECONDS: Final = 10
_ATTEMPTS: Final = 3


class ObjectStore:
    """Objects below a URL such as `s3://bucket/prefix`."""

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore.exceptions import BaseError, NotFoundError
            from obstore.store import from_url
        except ImportError as error:
            raise ArchiveRefused(
                f"an archive at {url} needs the package obstore: pip install '.[archive]' in "
                "Headrace's directory, or pip install obstore"
            ) from error
        self._url = url
        self._obstore: Any = obstore
        self._error: type[Exception] = BaseError
        self._not_found: type[Exception] = NotFoundError
        try:
            self._store: Any = from_url(
                url,
                # Whoever names an http:// endpoint means it; the usual ones are https.
                client_options={"allow_http": True, "timeout": "30s", "connect_timeout": "5s"},
                retry_config={
                    "max_retries": _ATTEMPTS,
                    "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
                },
            )
        except (BaseError, ValueError) as error:
            raise ArchiveRefused(
                f"{url} cannot be an archive: {_first_line(error)}; use a path, or a URL such as "
                "s3://bucket/prefix"
            ) from error

    def __str__(self) -> str:
        """Name the place."""
        return self._url

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        """Store an object, in place of any that has the key; on return it is safe."""
        try:
            self._obstore.put(self._store, key, iter(chunks), chunk_size=2 * CHUNK_BYTES)
        except self._error as error:
            raise self._unavailable(error, key, "write") from error

    def get(self, key: str) -> Iterator[bytes]:
        """The bytes of an object, piece by piece; `FileNotFoundError` if there is none."""
        try:
            size = self._obstore.head(self._store, key)["size"]
            # In ranges, so that the time limit is for each of them and not for a whole segment.
            for start in range(0, size, CHUNK_BYTES):
                end = min(start + CHUNK_BYTES, size)
                yield bytes(self._obstore.get_range(self._store, key, start=start, end=end))
        except (self._not_found, FileNotFoundError) as error:
            raise FileNotFoundError(f"{self._url}/{key}") from error
        except self._error as error:
            raise self._unavailable(error, key, "read") from error

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object whose key begins with the path `prefix`; an empty one means all."""
        try:
            for page in self._obstore.list(self._store, prefix or None):
                for found in page:
                    yield StoredObject(found["path"], found["size"])
        except self._error as error:
            raise self._unavailable(error, prefix, "list") from error

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        try:
            self._obstore.delete(self._store, key)
        except (self._not_found, FileNotFoundError):
            return
        except self._error as error:
            raise self._unavailable(error, key, "delete") from error

    def _unavailable(self, error: Exception, key: str, action: str) -> ArchiveUnavailable:
        return ArchiveUnavailable(
            f"cannot {action} {self._url}/{key}: {_first_line(error)}; check the network, the "
            "store and its credentials"
        )


def _first_line(error: Exception) -> str:
    """What a person wants of an error that goes on to print its insides."""
    return str(error).partition("\n")[0]
