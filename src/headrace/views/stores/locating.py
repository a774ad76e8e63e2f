"""Which store a URL names."""

from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from headrace.settings.address import shown
from headrace.views.stores.contract import Store
from headrace.views.stores.errors import InvalidStore

SCHEMES: Final = {
    "postgresql": "postgresql://user:password@host:5432/database",
    "postgres": "postgres://user:password@host:5432/database",
    "mariadb": "mariadb://user:password@host:3306/database",
    "mysql": "mysql://user:password@host:3306/database",
    "redis": "redis://user:password@host:6379/0",
    "rediss": "rediss://user:password@host:6379/0, which is with TLS",
    "opensearch": "opensearch://user:password@host:9200",
    "opensearch+https": "opensearch+https://user:password@host:9200, which is with TLS",
    "elasticsearch": "elasticsearch://user:password@host:9200",
    "elasticsearch+https": "elasticsearch+https://user:password@host:9200, which is with TLS",
    "parquet": "parquet:///directory, or parquet:////var/lib/directory from the root",
    "delta": "delta:///directory, or delta+s3a://bucket/directory and the like",
    "duckdb": "duckdb:///file.duckdb",
    "sqlite": "sqlite:///file.db, or sqlite:////directory/file.db from the root",
}
"""How URLs begin, and what a whole one looks like."""


def store_of(url: str) -> Store:
    """The store that a URL names; nothing is connected yet.

    Raises InvalidStore, which says what a good one looks like.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InvalidStore(f"{shown(url)} is not a URL: {error}.") from None
    match parts.scheme:
        case "postgresql" | "postgres":
            from headrace.views.stores.postgres import PostgresStore

            _require(bool(parts.path.strip("/")), url)
            return PostgresStore(url)
        case "sqlite":
            from headrace.views.stores.sqlite import SqliteStore

            options = _options(url, "search")
            return SqliteStore(_file(url), _words(options.get("search", "")))
        case "mariadb" | "mysql":
            from headrace.views.stores.mariadb import MariadbStore

            _require(bool(parts.path.strip("/")), url)
            _options(url, "ssl_ca", "ssl_cert", "ssl_key", "unix_socket")
            return MariadbStore(url)
        case "redis" | "rediss":
            from headrace.views.stores.redis import RedisStore

            _require(bool(parts.hostname), url)
            return RedisStore(url)
        case "opensearch" | "opensearch+https" | "elasticsearch" | "elasticsearch+https":
            from headrace.views.stores.search import SearchStore

            _require(bool(parts.hostname), url)
            _options(url)
            return SearchStore(url, secure=parts.scheme.endswith("+https"))
        case "parquet":
            from headrace.views.stores.parquet import ParquetStore

            _options(url)
            return ParquetStore(_file(url))
        case "delta":
            from headrace.views.stores.delta import DeltaStore

            _options(url)
            return DeltaStore(_file(url))
        case "duckdb":
            from headrace.views.stores.duckdb import DuckdbStore

            _options(url)
            return DuckdbStore(_file(url))
    if parts.scheme.startswith("delta+"):
        from headrace.views.stores.delta import DeltaStore

        return DeltaStore(url.removeprefix("delta+"))
    raise InvalidStore(
        f"{shown(url)} names no store; a URL begins with one of "
        f"{', '.join(f'{each}://' for each in SCHEMES)}."
    )


def _file(url: str) -> str:
    """The path of a URL such as sqlite:///data/shop.db or sqlite:////var/lib/shop.db."""
    parts = urlsplit(url)
    path = unquote(parts.path)[1:]
    _require(not parts.netloc and bool(path) and path != ":memory:", url)
    return path


def _options(url: str, *known: str) -> dict[str, str]:
    given = {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}
    if unknown := given.keys() - set(known):
        there_are = f"there is {', '.join(known)}" if known else "there are none"
        raise InvalidStore(f"{shown(url)} has the option {unknown.pop()}; {there_are}.")
    return given


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _require(condition: bool, url: str) -> None:
    if not condition:
        scheme = urlsplit(url).scheme
        raise InvalidStore(f"{shown(url)} does not name a store; write it as {SCHEMES[scheme]}.")
