"""Connections to PostgreSQL, and what its refusals mean."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, unquote

from headrace.capture.errors import CaptureBusy, CaptureError, DatabaseUnreachable, InvalidCapture
from headrace.capture.naming import database_url
from headrace.capture.postgres.values import SESSION_OPTIONS
from headrace.settings.address import shown

SCHEMES = ("postgresql", "postgres")
"""How the URL of a PostgreSQL database begins."""

_CONNECT_SECONDS = 10
_APPLICATION = "headrace capture"


def driver() -> ModuleType:
    """psycopg2, or a hint how to get it."""
    try:
        import psycopg2
        import psycopg2.extras
    except ImportError:
        raise InvalidCapture(
            "Capturing PostgreSQL needs psycopg2; "
            "install it with `pip install 'headrace[postgres]'`."
        ) from None
    module: ModuleType = psycopg2
    return module


def parameters_of(url: str) -> dict[str, str]:
    """What libpq is to be told, of a URL such as postgresql://user@host:5432/shop?sslmode=require."""
    parts = database_url(url, SCHEMES, "postgresql://user:password@host:5432/database")
    port = parts.port
    given = {
        "host": parts.hostname,
        "port": str(port) if port else None,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "dbname": unquote(parts.path.strip("/")),
    }
    return {name: value for name, value in given.items() if value} | dict(parse_qsl(parts.query))


def connect(url: str, *, replication: bool = False) -> Any:
    """A connection in autocommit mode, or one for the replication protocol."""
    psycopg2 = driver()
    given = parameters_of(url)
    given["options"] = f"{given.get('options', '')} {SESSION_OPTIONS}".strip()
    given.setdefault("connect_timeout", str(_CONNECT_SECONDS))
    given.setdefault("application_name", _APPLICATION)
    # A server that is gone without a word is noticed within half a minute.
    given |= {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "4"}
    factory = psycopg2.extras.LogicalReplicationConnection if replication else None
    with explained(url):
        connection = psycopg2.connect(**given, client_encoding="utf8", connection_factory=factory)
    if not replication:
        connection.autocommit = True
    return connection


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Turn the driver's errors into ours; what is not about the connection keeps its text."""
    psycopg2 = driver()
    try:
        yield
    except psycopg2.Error as error:
        raise meaning_of(error, url) from None


def meaning_of(error: Any, url: str) -> CaptureError:
    """What an error of the driver says to the person who captures."""
    text = " ".join(str(error).split())
    if "is active for PID" in text:
        return CaptureBusy(
            f"Another process reads this capture's replication slot: {text}. Stop it, or give this "
            "capture another name."
        )
    code = error.pgcode or ""
    lost = not code or code.startswith(("08", "57P", "53"))
    if lost:
        return DatabaseUnreachable(f"No connection to {shown(url)}: {text}")
    return CaptureError(f"{shown(url)} refused: {text} ({code}).")
