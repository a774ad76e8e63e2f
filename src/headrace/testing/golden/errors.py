"""What can be wrong with a golden file."""

from pathlib import Path

from headrace.errors import HeadraceError


class GoldenFileError(HeadraceError):
    """A golden file that does not say what is to be done; the message has the line."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")
