"""The process that those of Spark's Python processes are forked from that Spark starts one by one.

Spark forks the workers of tasks from a daemon, but it starts a new Python for every source of a
query, and another for every step with state. Each imports the same modules, which takes longer than
Spark itself takes to start the query. Here they are imported once, while Java starts.

    python -m headrace.streams.fork_server DIRECTORY

Whoever wants a process writes a line into the pipe `requests` of the directory: the name of a file
there with the environment, and the module (`LAUNCHING` does that in a shell). The process connects
to Spark by itself, as any of them does. It ends when Spark closes that connection, and the server
when its stdin ends, which is with the program that started it.
"""

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from headrace.streams.preloading import preload

_SOURCES: Final = "pyspark.sql.streaming.python_streaming_source_runner"
_OPERATORS: Final = "pyspark.sql.streaming.transform_with_state_driver_worker"

LAUNCHING: Final = f"""\
    "-m {_SOURCES}" | "-m {_OPERATORS}")
        if kill -0 "$(cat {{place}}/pid 2>/dev/null)" 2>/dev/null; then
            env -0 >{{place}}/$$ && echo "$$ $2" >{{place}}/requests && exit 0
        fi
        exec >/dev/null ;;
"""
"""A branch of a shell's `case` over what it was asked to run: have it forked, if that can be.

The second one looks at an operator with state before its query starts, and prints every step.
"""

_PATIENCE_SECONDS: Final = 10.0

_servers: list["subprocess.Popen[bytes]"] = []


def start_server(place: Path) -> None:
    """Start a server in a directory that is made for it; does not wait until it is ready."""
    place.mkdir(parents=True)
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, str(place)],
        stdin=subprocess.PIPE,
        # A fork takes no threads along, so there should be none; Spark tells its daemons the same.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # Out of reach of a terminal's signals, as Java is.
        start_new_session=True,
    )
    _servers.append(server)
    # A server that was killed is reaped at once: nobody must believe that it is still there.
    threading.Thread(target=server.wait, name="fork server", daemon=True).start()


def end_servers() -> None:
    """End all servers that were started here, and wait for that."""
    while _servers:
        server = _servers.pop()
        assert server.stdin is not None
        with suppress(BrokenPipeError):
            server.stdin.close()
        try:
            server.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


atexit.register(end_servers)


def serve(place: Path) -> None:
    """Fork a process for every request until stdin ends."""
    preload(_SOURCES, _OPERATORS)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        requests = _announced(place)
    except FileNotFoundError:
        # Whoever wanted it has ended meanwhile, and the directory is gone.
        return
    poller = select.poll()
    for each in (0, requests):
        poller.register(each, select.POLLIN)
    while all(number != 0 for number, _ in poller.poll()):
        # Lines this short are written whole or not at all.
        for line in os.read(requests, 1 << 16).decode("ascii").splitlines():
            name, module = line.split()
            if os.fork() == 0:
                os.close(requests)
                _become(module, place / name)


def _announced(place: Path) -> int:
    """Make the pipe of requests, and say who reads it; the pipe's descriptor."""
    pipe = place / "requests"
    os.mkfifo(pipe, 0o600)
    # Also open for writing: otherwise it would end with whoever writes.
    requests = os.open(pipe, os.O_RDWR)
    unfinished = place / "pid.unfinished"
    unfinished.write_text(str(os.getpid()), encoding="ascii")
    unfinished.rename(place / "pid")
    return requests


def _become(module: str, environment: Path) -> None:
    """Be the process that Spark has asked for, and end."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _take_on(environment)
        code = _run(module)
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _take_on(environment: Path) -> None:
    told = environment.read_bytes().split(b"\0")
    environment.unlink()
    os.environ.clear()
    for each in told:
        name, sign, value = each.partition(b"=")
        if sign:
            os.environb[name] = value
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [each for each in places if each and each not in sys.path]


def _run(module: str) -> int:
    from pyspark.worker_util import get_sock_file_to_executor

    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    if module == _OPERATORS:
        os.dup2(nothing, 1)
    program: Any = import_module(module)
    program.read_int = _read_int
    try:
        with get_sock_file_to_executor(timeout=None) as connection:
            program.main(connection, connection)
    except BrokenPipeError:
        return 0
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _read_int(stream: Any) -> int:
    """What Spark asks for next; the end, where it has closed the connection."""
    from pyspark.serializers import read_int

    try:
        return int(read_int(stream))  # type: ignore[no-untyped-call]
    except (EOFError, ConnectionError):
        os._exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
