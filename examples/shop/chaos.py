"""Kill something, anything, and see what becomes of it."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from examples.shop.processes import Process
from headrace.errors import HeadraceError

ANY = ("1", "any", "true", "yes")


class NothingToKill(HeadraceError):
    """There is no such process."""


def chosen(running: Sequence[Process], wanted: str, random: Random) -> Process:
    """The process to kill: any, or the one that was started for a part."""
    if wanted in ANY:
        candidates = list(running)
    else:
        candidates = [each for each in running if each.part == wanted and each.is_main]
    if not candidates:
        parts = ", ".join(sorted({each.part for each in running})) or "nothing"
        raise NothingToKill(f"DEMO_CHAOS={wanted} is none of what runs, which is {parts}; 1 is any")
    return random.choice(candidates)


def kill(process: Process) -> None:
    """End it without a word of warning."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
