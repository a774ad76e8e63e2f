"""The demo from its beginning to its end: open, let people in, close, and compare the accounts."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.client import HTTPException
from random import Random
from typing import Final

import psycopg2

from examples.shop import accounts, chaos
from examples.shop.opening import Premises
from examples.shop.processes import memory_of_all, processes
from examples.shop.running import Running
from examples.shop.verdict import Verdict
from headrace.errors import HeadraceError

_READY_SECONDS: Final = 600.0
_AGREE_SECONDS: Final = 400.0
"""How long the last orders may take to be everywhere, also after something was killed."""

_LOOK_SECONDS: Final = 1.0
_MEMORY_SECONDS: Final = 5.0


class NotReady(HeadraceError):
    """The shop did not open in a reasonable time."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What can be chosen about a run."""

    seconds: float | None = None
    """How long visitors come; None until interrupted."""
    chaos: str | None = None
    """What to kill in the middle: the name of a part, or 1 for anything."""
    seed: int = 7
    """Of what is killed."""


class Demo:
    """A shop from its opening to its accounts; `say` gets a line for people now and then."""

    def __init__(
        self, premises: Premises, wishes: Wishes, say: Callable[[str], None], stop: threading.Event
    ) -> None:
        self._premises = premises
        self._wishes = wishes
        self._say = say
        self._stop = stop
        self.memory_bytes = 0
        """The most that all processes together took, as far as was looked."""

    def run(self) -> Verdict | None:
        """Everything; None if it was told to stop before there was anything to count."""
        with Running(self._premises) as running:
            if not self._open(running):
                return None
            self._play(running)
            self._premises.sign.touch()
            verdict = self._settled(running)
        warehouse = {"DuckDB": accounts.in_warehouse(self._premises)}
        return replace(verdict, others={**verdict.others, **warehouse})

    def _open(self, running: Running) -> bool:
        """Wait until everything runs and the first order has come through; False if told to stop.

        NotReady if that takes so long that something must be wrong.
        """
        began = time.monotonic()
        while not (running.is_up() and (seen := self._seen()) and _orders_everywhere(seen)):
            if time.monotonic() - began > _READY_SECONDS:
                raise NotReady(f"no order has come through in {_READY_SECONDS:g} s.")
            if self._stop.wait(_LOOK_SECONDS):
                return False
        took = time.monotonic() - began
        self._say(f"The shop is open: http://{self._premises.console} (after {took:.0f} s)")
        return True

    def _play(self, running: Running) -> None:
        """Let time pass, and halfway through do what was wished for."""
        began = looked = time.monotonic()
        seconds, wanted = self._wishes.seconds, self._wishes.chaos
        while not self._stop.wait(_LOOK_SECONDS):
            running.check()
            now = time.monotonic()
            if now - looked > _MEMORY_SECONDS:
                looked = now
                self.memory_bytes = max(self.memory_bytes, memory_of_all(os.getpid()))
            if wanted is not None and now - began >= (seconds or 60.0) / 2:
                self._kill(wanted)
                wanted = None
            if seconds is not None and now - began >= seconds:
                return

    def _kill(self, wanted: str) -> None:
        running = processes(self._premises.state)
        victim = chaos.chosen(running, wanted, Random(self._wishes.seed))
        self._say(f"Chaos: kill -9 {victim.pid}, which is {victim}.")
        chaos.kill(victim)

    def _settled(self, running: Running) -> Verdict:
        """The accounts when they agree, or when there was time enough for that."""
        deadline = time.monotonic() + _AGREE_SECONDS
        before: Verdict | None = None
        while True:
            running.check()
            seen = self._seen()
            # Twice the same: nobody is on the way to the database any more.
            if seen is not None and (seen == before and seen.agrees):
                return seen
            if time.monotonic() > deadline:
                return seen or accounts.in_all(self._premises)
            before = seen
            time.sleep(_LOOK_SECONDS)

    def _seen(self) -> Verdict | None:
        """The accounts; None if somebody cannot say just now, as one who was killed."""
        try:
            return accounts.in_all(self._premises)
        except (psycopg2.Error, OSError, HTTPException):
            return None


def _orders_everywhere(seen: Verdict) -> bool:
    return all(each.orders for each in (seen.database, *seen.others.values()))
