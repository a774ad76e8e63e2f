"""Connections to SQLite files, and what their refusals mean."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from headrace.capture.errors import CaptureError, DatabaseUnreachable, InvalidCapture

SCHEME: Final = "sqlite"
"""How the URL of a SQLite database begins."""

OLDEST: Final = (3, 37, 0)
"""The first version that lists its tables with their kinds."""

BUSY_SECONDS: Final = 30.0
"""How long to wait while others write."""


def path_of(url: str) -> Path:
    """The file of a URL.

    >>> path_of("sqlite:///data/shop.db"), path_of("sqlite:////var/lib/shop.db")
    (PosixPath('data/shop.db'), PosixPath('/var/lib/shop.db'))
    """
    parts = urlsplit(url)
    path = unquote(parts.path)[1:]
    if parts.scheme != SCHEME or parts.netloc or not path or path == ":memory:":
        raise InvalidCapture(
            f"{url} does not name a SQLite database; write it as sqlite:///file.db, or as "
            "sqlite:////directory/file.db if the path begins at the root."
        )
    return Path(path)


def connect(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode, to a file that is there."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise InvalidCapture(
            f"This Python has SQLite {sqlite3.sqlite_version}; capturing takes 3.37 or newer."
        )
    if not path.exists():
        raise InvalidCapture(f"There is no database {path}; a capture does not make one.")
    with explained(path):
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.text_factory = _text
        # Nothing is read yet; an encrypted file or another kind of file is noticed here.
        connection.execute("PRAGMA schema_version").fetchone()
    return connection


def _text(written: bytes) -> str | bytes:
    """Text, or the bytes of what calls itself text and is not UTF-8."""
    try:
        return written.decode()
    except UnicodeDecodeError:
        return written


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise meaning_of(error, path) from None


def meaning_of(error: sqlite3.Error, path: Path) -> CaptureError:
    """What an error of the driver says to the person who captures."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return DatabaseUnreachable(
            f"{path} was locked by another process for {BUSY_SECONDS:.0f} seconds."
        )
    if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_FULL")):
        return DatabaseUnreachable(f"{path} cannot be read or written: {error} ({name}).")
    if name == "SQLITE_NOTADB":
        return InvalidCapture(f"{path} is not a SQLite database, or it is encrypted.")
    if name.startswith("SQLITE_READONLY"):
        return CaptureError(
            f"{path} may not be written. Changes are recorded in the database itself, so let the "
            "capture's user write the file and its directory."
        )
    return CaptureError(f"{path} refused: {error} ({name}).")


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction that holds the write lock from its beginning."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction in which everything is read as of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def schema_version(connection: sqlite3.Connection) -> int:
    """The number that SQLite raises whenever tables, indexes or triggers change."""
    found: Any = connection.execute("PRAGMA schema_version").fetchone()
    return int(found[0])


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
