"""How far a command has come that moves, or reads, many bytes."""

import sys
import time


class TransferBar:
    """A line on stderr that is rewritten while bytes flow, where stderr is a terminal."""

    _SECONDS_BETWEEN = 0.2

    def __init__(self, verb: str, total: int) -> None:
        self._verb = verb
        self._total = total
        self._done = 0
        self._shown = sys.stderr.isatty()
        self._next = 0.0

    def add(self, size: int) -> None:
        """So many more bytes are done."""
        self.show(self._done + size, self._total)

    def show(self, done: int, total: int) -> None:
        """So many bytes of so many are done."""
        self._done = done
        if self._shown and (time.monotonic() >= self._next or done == total):
            self._next = time.monotonic() + self._SECONDS_BETWEEN
            share = 100 * done // total if total else 100
            line = f"{share:3d} %  {size_text(done)} of {size_text(total)} {self._verb}"
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Make room for other lines."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def size_text(size: int) -> str:
    """A size as people read it.

    >>> size_text(17), size_text(1_500), size_text(3 << 30)
    ('17 B', '1.5 KiB', '3.0 GiB')
    """
    scaled, units = float(size), iter(("KiB", "MiB", "GiB", "TiB", "PiB"))
    unit = "B"
    while scaled >= 1000 and (larger := next(units, None)):
        scaled, unit = scaled / 1024, larger
    return f"{size} B" if unit == "B" else f"{scaled:.1f} {unit}"
