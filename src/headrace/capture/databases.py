"""Which database a URL names."""

import re
from urllib.parse import urlsplit

from headrace.capture.errors import InvalidCapture
from headrace.capture.selection import Selection
from headrace.capture.source import Source
from headrace.settings import CaptureSettings

SCHEMES = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mariadb": "mariadb",
    "mysql": "mariadb",
    "sqlite": "sqlite",
}
"""How URLs begin, and what database that is."""


def source_of(settings: CaptureSettings) -> Source:
    """The database of a capture; nothing is connected yet."""
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", settings.called):
        raise InvalidCapture(
            f"A capture cannot be called {settings.called!r}: names have letters, digits, dots, "
            "dashes and underscores only."
        )
    selection = Selection(settings.tables, settings.without, settings.masked, settings.where)
    kind = SCHEMES.get(urlsplit(settings.address).scheme)
    if kind == "postgresql":
        from headrace.capture.postgres import PostgresSource

        return PostgresSource(settings.address, settings.called, selection)
    if kind == "mariadb":
        from headrace.capture.mariadb import MariadbSource

        return MariadbSource(settings.address, settings.called, selection)
    if kind == "sqlite":
        from headrace.capture.sqlite import SqliteSource

        return SqliteSource(settings.address, settings.called, selection)
    raise InvalidCapture(
        f"A capture's URL begins with one of {', '.join(f'{each}://' for each in SCHEMES)}; "
        f"{settings.address.partition('://')[0]}:// is none of them."
    )
