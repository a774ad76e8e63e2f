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
from pathlib import Path

from pyspark import daemon

_LAUNCHER = """\
#!/bin/sh
case "$1 $2" in
    "-m pyspark.daemon")
        shift 2
        set -- -m headrace.streams.worker_daemon "$@" ;;
    "-m pyspark.sql.streaming.transform_with_state_driver_worker")
        exec >/dev/null ;;
esac
exec {python} "$@"
"""
"""The second one looks at an operator with state before its query starts, and prints every step."""

_worker = daemon.worker


def write_launcher(home: Path, python: str) -> Path:
    """A program that is this Python, but for what forks Spark's workers."""
    launcher = home / "bin" / "python"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(_LAUNCHER.format(python=shlex.quote(python)), encoding="utf-8")
    launcher.chmod(0o755)
    return launcher


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Do what Spark's own does, and end in silence where Spark has closed the connection.

    What a user's function raises is none of this: it is told to Spark, while that listens.
    """
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
