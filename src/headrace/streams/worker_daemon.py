"""The process that Spark forks its Python workers from, quiet when Spark needs one no longer.

Spark ends an idle worker by closing its socket. The worker notices, and says so on that socket,
where nobody listens any more: over TCP that goes unnoticed, over a Unix domain socket it is a
broken pipe, and the traceback of that was on the terminal of people whose flows were well.

    python -m headrace.streams.worker_daemon pyspark.worker
"""

import os
import socket

from pyspark import daemon

_worker = daemon.worker


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
