"""Keeping parts running: started in order, started again when they fail, stopped in order."""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from headrace.clock import Clock, SystemClock
from headrace.console.supervising.control import Asked, listening
from headrace.console.supervising.parts import Part
from headrace.console.supervising.process import Doing, Process
from headrace.console.supervising.record import PartSeen, UpSeen, only_supervisor, write_record
from headrace.settings import UpSettings

_TICK_SECONDS: Final = 0.1
_TURN_SECONDS: Final = 60.0
"""How long parts wait at most for those that they need, before they try without."""

Tell = Callable[[str], None]


class Supervisor:
    """Runs parts until it is told to stop; see `run`.

    Args:
        parts: What to run.
        settings: Where its files are, and how patient it is.
        tell: Told in a line what happens.
        ready: Called once when every part runs.
        clock: The time.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        settings: UpSettings,
        *,
        tell: Tell = lambda line: None,
        ready: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._tell = tell
        self._ready = ready
        self._clock = clock or SystemClock()
        self._processes = [Process(part, settings) for part in parts]
        self._since: dict[str, tuple[Doing, int]] = {}
        self._told: dict[str, Doing] = {}
        self._asked: queue.SimpleQueue[Asked] = queue.SimpleQueue()
        self._seen = UpSeen()
        self._began = time.monotonic()

    def run(self, stopping: threading.Event, hurry: threading.Event) -> None:
        """Start all, keep them running until `stopping`, and stop them, at once if in a `hurry`.

        Belongs to the main thread: with the thread that started it every process ends.
        """
        directory = self._settings.state
        with only_supervisor(directory), listening(directory, self._asked) as address:
            self._seen = UpSeen(os.getpid(), address)
            told_ready = False
            try:
                while not stopping.wait(_TICK_SECONDS):
                    self._heed()
                    self._start_those_whose_turn_it_is()
                    self._tick()
                    if not told_ready and all(each.ready for each in self._processes):
                        told_ready = True
                        self._ready()
            finally:
                self._stop_all(hurry)

    def _start_those_whose_turn_it_is(self) -> None:
        patient = time.monotonic() - self._began < _TURN_SECONDS
        for each in self._processes:
            if each.doing is not Doing.WAITING:
                continue
            before = [one for one in self._processes if one.part.stage < each.part.stage]
            if all(one.ready for one in before) or not patient:
                each.start()

    def _tick(self) -> None:
        for each in self._processes:
            each.tick()
            self._say(each)
        self._note()

    def _say(self, process: Process) -> None:
        name, doing = process.part.name, process.doing
        if self._told.get(name) is doing:
            return
        if doing is Doing.PAUSING:
            how = _how(process.exit)
            self._tell(f"{name} {how} and is started again: {process.last_words()}")
        elif doing is Doing.RUNNING and self._told.get(name) is not None and process.restarts:
            self._tell(f"{name} runs again")
        elif doing is Doing.FINISHED:
            self._tell(f"{name} is done")
        self._told[name] = doing

    def _note(self) -> None:
        """Write down what runs, if that has changed."""
        seen = UpSeen(
            self._seen.process,
            self._seen.socket,
            tuple(self._part_seen(each) for each in self._processes),
        )
        if seen != self._seen:
            self._seen = seen
            with suppress(OSError):
                write_record(self._settings.state, seen)

    def _part_seen(self, process: Process) -> PartSeen:
        name, doing = process.part.name, process.doing
        if self._since.get(name, (None, 0))[0] is not doing:
            self._since[name] = (doing, self._clock.now_ms())
        return PartSeen(
            name,
            process.part.kind,
            doing.value,
            process.pid,
            process.restarts,
            process.exit,
            self._since[name][1],
            str(process.log),
            process.part.file,
            process.last_words() if doing is Doing.PAUSING else "",
        )

    def _heed(self) -> None:
        with suppress(queue.Empty):
            while True:
                asked = self._asked.get_nowait()
                refused = self._do(asked)
                self._tick()
                asked.answer.put(refused)

    def _do(self, asked: Asked) -> str:
        """Do what was asked for; why not, if not."""
        found = next((each for each in self._processes if each.part.name == asked.part), None)
        if found is None:
            return f"There is no part {asked.part}."
        match asked.do:
            case "stop":
                found.stop()
            case "start":
                found.start()
            case "restart" if found.pid is not None:
                found.stop()
                self._await(found)
                found.start()
            case "restart":
                found.start()
            case "rebuild":
                return self._rebuild(found, asked.version)
            case "remove" if "@" in asked.part:
                found.stop()
                self._await(found)
                self._processes.remove(found)
            case _:
                return f"A part cannot be asked to {asked.do}."
        return ""

    def _rebuild(self, flow: Process, version: str) -> str:
        if flow.part.kind != "flow":
            return f"{flow.part.name} is no flow."
        if not version:
            return "A rebuild needs the name of the version."
        part = flow.part.rebuilt_as(version)
        if any(each.part.name == part.name for each in self._processes):
            return f"{part.name} is there already."
        process = Process(part, self._settings)
        self._processes.insert(self._processes.index(flow) + 1, process)
        process.start()
        return ""

    def _await(self, process: Process) -> None:
        while not process.gone:
            process.tick()
            time.sleep(_TICK_SECONDS)

    def _stop_all(self, hurry: threading.Event) -> None:
        """Those that need others before those others; each stage is waited for."""
        for stage in sorted({each.part.stage for each in self._processes}, reverse=True):
            members = [each for each in self._processes if each.part.stage is stage]
            for each in members:
                each.stop()
            while not all(each.gone for each in members):
                if hurry.is_set():
                    for each in members:
                        each.kill()
                self._tick()
                time.sleep(_TICK_SECONDS)


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with {code}"
    return f"was ended by signal {-code}"
