"""Asking a supervisor for something: a line of JSON to its socket, a line of JSON back.

Only the user who started it can connect, since only they may open the socket.
"""

import hashlib
import json
import os
import queue
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headrace.errors import HeadraceError

_LONGEST_PATH: Final = 100
"""Of a socket, by the system's limit."""

_PATIENCE_SECONDS: Final = 15.0
_LINE_BYTES: Final = 65_536


class SupervisorRefused(HeadraceError):
    """The supervisor does not answer, or does not do what it was asked for."""


@dataclass(slots=True)
class Asked:
    """What somebody wants of the supervisor, and where its answer goes."""

    do: str
    part: str
    version: str = ""
    answer: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)
    """Gets an empty text if it was done, else why it was not."""


def ask(address: str, do: str, part: str, version: str = "") -> None:
    """Have a part stopped, started, restarted, rebuilt or removed; SupervisorRefused if not."""
    if not address:
        raise SupervisorRefused(f"No `headrace up` runs here that could {do} {part}.")
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_PATIENCE_SECONDS)
            client.connect(address)
            line = json.dumps({"do": do, "part": part, "version": version})
            client.sendall(line.encode() + b"\n")
            answer = json.loads(client.makefile("rb").readline(_LINE_BYTES))
    except (OSError, ValueError) as error:
        raise SupervisorRefused(f"`headrace up` does not answer: {error}.") from None
    if refused := answer.get("refused"):
        raise SupervisorRefused(refused)


@contextmanager
def listening(directory: Path, asked: "queue.SimpleQueue[Asked]") -> Iterator[str]:
    """Listen while a block runs, and hand on what is asked for; gives the socket's address."""
    path = directory.absolute() / "up.sock"
    if len(str(path)) > _LONGEST_PATH:
        name = hashlib.blake2b(str(path).encode(), digest_size=8).hexdigest()
        path = Path(tempfile.gettempdir()) / f"headrace-up-{name}.sock"
    path.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
    finally:
        os.umask(before)
    server.listen()
    thread = threading.Thread(target=_serve, args=(server, asked), name="control", daemon=True)
    thread.start()
    try:
        yield str(path)
    finally:
        server.close()
        path.unlink(missing_ok=True)


def _serve(server: socket.socket, asked: "queue.SimpleQueue[Asked]") -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client:
            client.settimeout(_PATIENCE_SECONDS)
            try:
                client.sendall(json.dumps(_answer(client, asked)).encode() + b"\n")
            except (OSError, ValueError, queue.Empty):
                continue


def _answer(client: socket.socket, asked: "queue.SimpleQueue[Asked]") -> dict[str, Any]:
    wanted = json.loads(client.makefile("rb").readline(_LINE_BYTES))
    if not isinstance(wanted, dict) or not {"do", "part"} <= wanted.keys():
        return {"refused": 'It takes {"do": ..., "part": ...}.'}
    request = Asked(str(wanted["do"]), str(wanted["part"]), str(wanted.get("version", "")))
    asked.put(request)
    refused = request.answer.get(timeout=_PATIENCE_SECONDS)
    return {"refused": refused} if refused else {"done": True}
