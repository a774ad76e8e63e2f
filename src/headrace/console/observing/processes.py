"""What `headrace up` runs beside the console, and how it is asked for something."""

from pathlib import Path

from headrace.console.supervising.control import ask
from headrace.console.supervising.record import UpSeen, read_record


class Processes:
    """The parts of the supervisor whose directory the settings name, if one runs there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def gather(self) -> UpSeen:
        """All parts as they are now; none if no supervisor runs."""
        return read_record(self._directory)

    def ask(self, do: str, part: str, version: str = "") -> None:
        """Have a part stopped, started, restarted, rebuilt or removed; SupervisorRefused if not."""
        ask(self.gather().socket, do, part, version)
