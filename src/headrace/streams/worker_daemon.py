"""The process that Spark forks its Python workers from, quiet when Spark needs one no longer.

Spark ends an idle worker by closing its socket. The worker notices, and says so on that socket,
where nobody listens any more: over TCP that goes unnoticed, over a Unix domain socket it is a
broken pipe, and the traceback of that was on the terminal of people whose flows were well.

    python -m headrace.streams.worker_daemon pyspark.worker

Spark has a setting for what it starts here, which it does not follow for the workers that plan what
sources read. So it is given a Python that knows better (`write_launcher`).
"""

import os
import shlex
import socket
import sys
from pathlib import Path

from pyspark import daemon

from headrace.streams.fork_server import LAUNCHING
from headrace.streams.preloading import preload

_LAUNCHER = """\
#!/bin/sh
case "$1 $2" in
    "-m pyspark.daemon")
        shift 2
        set -- -m headrace.streams.worker_daemon "$@" ;;
{launching}esac
exec {python} "$@"
"""

_worker = daemon.worker


def write_launcher(home: Path, python: str) -> Path:
    """A program that is this Python, but for what forks Spark's workers."""
    launcher = home / "bin" / "python"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launching = LAUNCHING.format(place=shlex.quote(str(forks_of(home))))
    launcher.write_text(
        _LAUNCHER.format(python=shlex.quote(python), launching=launching), encoding="utf-8"
    )
    launcher.chmod(0o755)
    return launcher


def forks_of(home: Path) -> Path:
    """Where the launcher looks for who forks what Spark starts one by one (`fork_server`)."""
    return home / "forks"


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Do what Spark's own does, and end in silence where Spark has closed the connection.

    What a user's function raises is none of this: it is told to Spark, while that listens.
    """
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    preload(*sys.argv[1:])
    daemon.worker = worker
    daemon.manager()
