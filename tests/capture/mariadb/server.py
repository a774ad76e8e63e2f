"""A MariaDB server of a test's own, from Debian's packages, which nobody has to install.

The packages are fetched once by the machine's apt, unpacked into a cache, and run from there.
"""

import functools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pymysql

_PACKAGE = "mariadb-server-core"
_SHARE = "usr/share/mysql"
_BOOTSTRAP = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
_SETTINGS = {
    "log-bin": "log",
    "server-id": "1",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "innodb-flush-log-at-trx-commit": "0",
    "sync-binlog": "0",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "character-set-server": "utf8mb4",
    "explicit-defaults-for-timestamp": "ON",
    "performance-schema": "OFF",
    "bind-address": "127.0.0.1",
    "skip-name-resolve": "ON",
    "innodb-use-native-aio": "OFF",
}


class MariadbUnavailable(Exception):
    """MariaDB cannot run on this machine; the message says why."""


@functools.cache
def unavailable() -> str | None:
    """Why MariaDB cannot be used here, or None if it can; fetches it on the first call."""
    try:
        _programs()
    except MariadbUnavailable as error:
        return str(error)
    return None


def _programs() -> Path:
    """The directory with MariaDB in it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headrace"
    directory = cache / "mariadb"
    if directory.is_dir():
        return directory
    for program in ("apt-get", "apt-cache", "dpkg"):
        if shutil.which(program) is None:
            raise MariadbUnavailable(
                f"MariaDB comes from Debian's packages, and {program} is missing"
            )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        fetched, unpacked = Path(temporary) / "fetched", Path(temporary) / "unpacked"
        fetched.mkdir()
        _fetch(fetched, Path(temporary))
        for package in fetched.glob("*.deb"):
            _run("dpkg", "-x", str(package), str(unpacked))
        try:
            unpacked.rename(directory)
        except OSError:
            # Another process fetched them at the same time, and its copy is as good as ours.
            if not directory.is_dir():
                raise
    return directory


def _fetch(into: Path, state: Path) -> None:
    """Fetch the package and what it needs; with lists of our own if the machine has none."""
    options: list[str] = []
    try:
        _run("apt-get", "download", _PACKAGE, cwd=into)
    except MariadbUnavailable:
        (state / "lists" / "partial").mkdir(parents=True)
        options = [
            *("-o", f"Dir::State::lists={state / 'lists'}"),
            *("-o", f"Dir::Cache={state}", "-o", "Debug::NoLocking=1"),
        ]
        _run("apt-get", *options, "update")
        _run("apt-get", *options, "download", _PACKAGE, cwd=into)
    listed = _run("apt-cache", *options, "depends", "--important", _PACKAGE)
    needed = [
        line.split()[-1]
        for line in listed.splitlines()
        if line.strip().startswith("Depends: lib") and "<" not in line
    ]
    for package in needed:
        installed = subprocess.run(["dpkg", "-s", package], capture_output=True, check=False)
        if installed.returncode:
            _run("apt-get", *options, "download", package, cwd=into)


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-300:]
        raise MariadbUnavailable(f"`{' '.join(command)}` failed: {said}")
    return done.stdout


class MariadbServer:
    """A server that can be killed and started again; its data goes in the end.

    Where tests run as root, it runs as nobody, from a copy that nobody can read.
    """

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="headrace-mariadb-"))
        self._data = self._directory / "data"
        self._user: dict[str, Any] = {}
        programs = _programs()
        self._data.mkdir()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            copied = self._directory / "mariadb"
            shutil.copytree(programs, copied, symlinks=True)
            programs = copied
            self._directory.chmod(0o755)
            os.chown(self._data, nobody.pw_uid, nobody.pw_gid)
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        share = programs / _SHARE
        libraries = sorted({str(each.parent) for each in programs.rglob("*.so*")})
        self._environment = os.environ | {"LD_LIBRARY_PATH": ":".join(libraries)}
        self._command = [
            str(programs / "usr/sbin/mariadbd"),
            "--no-defaults",
            f"--datadir={self._data}",
            f"--lc-messages-dir={share / 'english'}",
            f"--character-sets-dir={share / 'charsets'}",
            "--debug-no-sync",
        ]
        self._process: subprocess.Popen[bytes] | None = None
        tables = "\n".join((share / name).read_text() for name in _BOOTSTRAP)
        users = (
            "FLUSH PRIVILEGES;\nCREATE USER admin@'%';\n"
            "GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION;\n"
        )
        with (self._directory / "log").open("ab") as log:
            subprocess.run(
                [*self._command, "--bootstrap"],
                input=f"CREATE DATABASE mysql;\nUSE mysql;\n{tables}\n{users}".encode(),
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd="/",
                check=True,
                **self._user,
            )

    def url(self, database: str, user: str = "admin", password: str = "") -> str:
        who = f"{user}:{password}" if password else user
        return f"mariadb://{who}@127.0.0.1:{self.port}/{database}"

    def start(self, **settings: str) -> None:
        given = _SETTINGS | {name.replace("_", "-"): value for name, value in settings.items()}
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._command,
                    f"--port={self.port}",
                    f"--socket={self._data / 'socket'}",
                    *(f"--{name}={value}" for name, value in given.items()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd="/",
                **self._user,
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connect().close()
            except pymysql.OperationalError:
                said = (self._directory / "log").read_text()[-2000:]
                assert self._process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Kill it, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def connect(self, database: str | None = None) -> Any:
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="admin",
            database=database,
            autocommit=True,
            charset="utf8mb4",
        )

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
