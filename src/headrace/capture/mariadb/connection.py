"""Connections to MariaDB and MySQL, and what their refusals mean."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from headrace.capture.errors import (
    CaptureError,
    DatabaseUnreachable,
    InvalidCapture,
    PositionLost,
)
from headrace.capture.naming import database_url
from headrace.settings.address import shown

SCHEMES: Final = ("mariadb", "mysql")
"""How the URL of such a database begins."""

_CONNECT_SECONDS: Final = 10
_OPTIONS: Final = {"ssl_ca", "ssl_cert", "ssl_key", "unix_socket"}
_LOST: Final = {1040, 1053, 1077, 1129, 1159, 1160, 1161, 1203, 2002, 2003, 2006, 2013, 2055}
"""Numbers of errors that another try may not see."""

_NO_RIGHTS: Final = 1044
_NOT_LET_IN: Final = {_NO_RIGHTS, 1045, 1049, 1698}
_LOG_GONE: Final = {1236, 1373}


def driver() -> ModuleType:
    """PyMySQL, or a hint how to get it."""
    try:
        import pymysql
    except ImportError:
        raise InvalidCapture(
            "Capturing MariaDB or MySQL needs mysql-replication and PyMySQL; "
            "install them with `pip install 'headrace[mysql]'`."
        ) from None
    module: ModuleType = pymysql
    return module


def parameters_of(url: str) -> dict[str, Any]:
    """What the driver is to be told, of a URL such as mariadb://user:password@host:3306/shop."""
    example = "mariadb://user:password@host:3306/database, or with mysql:// for MySQL"
    parts = database_url(url, SCHEMES, example)
    port = parts.port
    options = dict(parse_qsl(parts.query))
    if unknown := options.keys() - _OPTIONS:
        raise InvalidCapture(
            f"{shown(url)} has the option {unknown.pop()}; there are {', '.join(sorted(_OPTIONS))}."
        )
    return {
        "host": parts.hostname or "localhost",
        "port": port or 3306,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.strip("/")),
        **options,
    }


def connect(url: str) -> Any:
    """A connection in autocommit mode, whose rows are texts and bytes as the server sends them."""
    pymysql = driver()
    with explained(url):
        return pymysql.connect(
            **parameters_of(url),
            charset="utf8mb4",
            autocommit=True,
            conv=_encoders(pymysql),
            connect_timeout=_CONNECT_SECONDS,
            init_command="SET time_zone = '+00:00', sql_mode = 'ANSI_QUOTES', "
            "net_write_timeout = 600, wait_timeout = 86400",
        )


def _encoders(pymysql: ModuleType) -> dict[Any, Any]:
    """How values are written into statements; nothing is read but texts."""
    encoders: dict[Any, Any] = pymysql.converters.encoders
    return dict(encoders)


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Turn the driver's errors into ours; what is not about the connection keeps its text."""
    pymysql = driver()
    try:
        yield
    except (pymysql.Error, OSError) as error:
        raise meaning_of(error, url) from None


def meaning_of(error: Exception, url: str) -> CaptureError:
    """What an error of the driver says to the person who captures."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = " ".join(str(error.args[-1] if error.args else error).split())
    if isinstance(error, OSError) or code in _LOST or code == 0:
        return DatabaseUnreachable(f"No connection to {shown(url)}: {text}")
    if code in _NOT_LET_IN:
        remedy = ". Run GRANT SELECT on its tables first; --check then says what else is missing"
        return DatabaseUnreachable(
            f"{shown(url)} did not let us in: {text} ({code}){remedy if code == _NO_RIGHTS else ''}"
        )
    if code in _LOG_GONE:
        return PositionLost(
            f"{shown(url)} does not have the log behind the capture's position any more, or never "
            f"had it: {text} Run the capture with --lost snapshot to read its tables anew, or drop "
            "it. Keep more of the log with binlog_expire_logs_seconds."
        )
    return CaptureError(f"{shown(url)} refused: {text} ({code}).")


def answers(connection: Any) -> bool:
    """Whether a connection is still one."""
    try:
        connection.ping(reconnect=False)
    except (driver().Error, OSError):
        return False
    return True


def ask(connection: Any, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return list(cursor.fetchall())


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return "`" + name.replace("`", "``") + "`"
