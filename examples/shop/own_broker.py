"""A Headrace broker of the demo's own, in a process of its own, with data that goes with it."""

import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError

_ADDRESS = re.compile(r"\S+:\d+")
_STOP_SECONDS = 10.0
_LOG_SHOWN = 2_000


class BrokerFailed(HeadraceError):
    """The broker ended by itself; the message carries the last that it said."""


@dataclass(frozen=True, slots=True)
class OwnBroker:
    """A running broker and where to look at it."""

    bootstrap: str
    process_id: int
    data: Path

    def stored_bytes(self) -> int:
        """Size of everything in the data directory."""
        with contextlib.suppress(FileNotFoundError):  # a segment that goes while we look
            return sum(path.stat().st_size for path in self.data.rglob("*") if path.is_file())
        return 0

    def memory_bytes(self) -> int | None:
        """Resident memory of the broker's process, where the system tells."""
        status = Path(f"/proc/{self.process_id}/status")
        if not status.exists():
            return None
        found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
        return int(found[1]) * 1024 if found else None


@contextlib.contextmanager
def own_broker() -> Iterator[OwnBroker]:
    """Start `headrace broker` on a free port; it ends and its data goes with the block."""
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as directory:
        data = Path(directory) / "data"
        log = Path(directory) / "broker.log"
        command = [sys.executable, "-m", "headrace", "broker", "--port", "0", "--data", str(data)]
        with log.open("wb") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Ctrl-C reaches a whole process group; the broker must outlive its clients.
                start_new_session=True,
            )
        with process:
            try:
                yield OwnBroker(_ready_address(process, log), process.pid, data)
            finally:
                ended = process.poll() is not None
                _stop(process)
                if ended:
                    raise _failure(process, log)


def _ready_address(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if address := _ADDRESS.search(line):
            return address[0]
    process.wait()
    raise _failure(process, log)


def _failure(process: subprocess.Popen[str], log: Path) -> BrokerFailed:
    said = log.read_text()[-_LOG_SHOWN:]
    return BrokerFailed(f"the broker ended with status {process.returncode}:\n{said}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
