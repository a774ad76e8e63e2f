"""What was changed through the console: a line in the log and in a file, before it is done."""

import json
import logging
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from headrace.clock import Clock, SystemClock

VERSION: Final = 1
"""Of the lines in the file."""

logger = logging.getLogger("headrace.console.audit")


class Audit:
    """Notes actions in a file of JSON lines; what is noted names things and holds no contents."""

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()

    def note(self, action: str, what: str, by: str, **details: object) -> None:
        """Note that somebody does something; OSError if the file cannot be written."""
        at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).isoformat()
        line = {"version": VERSION, "at": at, "by": by, "action": action, "what": what, **details}
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        logger.info("%s %s by %s %s", action, what, by, details or "")
