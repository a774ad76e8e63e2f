"""Programs that tell their steps, and meet their fates between two of them."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from headrace.testing.kafka_jars import Jars, classpath, java_program, unavailable

JAVA_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Dorg.apache.logging.log4j.level=WARN",
)


@dataclass(frozen=True)
class Fate:
    """What happens to a program after so many steps."""

    steps: int
    superseded: bool
    """It is halted, and goes on when another one has taken its place; otherwise it is killed."""


def fates(random: Random, count: int, *, longest: int, superseded: float) -> list[Fate]:
    """Some fates, at most so many steps away, of which about this share are superseded."""
    return [Fate(random.randint(1, longest), random.random() < superseded) for _ in range(count)]


class Supervisor:
    """Runs a program, again and again, until it is told to stop.

    Each run is ended by the next fate; when there are no more of them the program may run on. A
    program that ends by itself is started again like one that was killed.
    """

    def __init__(self, command: Sequence[str], ends: Iterable[Fate], errors: Path) -> None:
        self._command = list(command)
        self._fates = list(ends)
        self._errors = errors
        self._stopping = False
        self._running: list[subprocess.Popen[str]] = []
        self._thread = threading.Thread(target=self._run)
        self.runs = 0
        """How many times it was started."""

    def start(self) -> None:
        """Start the program."""
        self._thread.start()

    def stop(self) -> None:
        """Kill the program, and whichever of its predecessors still runs."""
        self._stopping = True
        while self._thread.is_alive():
            for process in list(self._running):
                process.kill()
            self._thread.join(0.05)

    def errors(self) -> str:
        """The end of what all runs printed to their standard errors."""
        return self._errors.read_text(encoding="utf-8", errors="replace")[-3000:]

    def _run(self) -> None:
        halted: subprocess.Popen[str] | None = None
        while not self._stopping:
            process = self._launch()
            fate = self._fates.pop(0) if self._fates else None
            superseded = self._watch(process, fate, halted)
            halted = process if superseded else None
        for process in self._running:
            process.kill()
            with process:
                pass

    def _watch(
        self,
        process: subprocess.Popen[str],
        fate: Fate | None,
        halted: subprocess.Popen[str] | None,
    ) -> bool:
        """Follow the steps until the fate or the end; returns whether it is halted."""
        assert process.stdout is not None
        for number, _ in enumerate(process.stdout, 1):
            if halted is not None and number == 2:
                # Its successor is at work: whatever it does now must come to nothing.
                halted.send_signal(signal.SIGCONT)
            if fate is not None and number == fate.steps:
                if fate.superseded:
                    process.send_signal(signal.SIGSTOP)
                    return True
                process.kill()
        process.wait()
        return False

    def _launch(self) -> subprocess.Popen[str]:
        self.runs += 1
        with self._errors.open("ab") as errors:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._running.append(process)
        return process


def java_programs_unavailable(jars: Jars) -> str | None:
    """Why no Java program that uses these jars can be compiled and run here, or None."""
    if reason := unavailable(jars):
        return reason
    if shutil.which("javac") is None:
        return "a Java program needs a JDK: put `javac` on the PATH"
    return None


def compile_java(source: Path, jars: Jars, directory: Path) -> list[str]:
    """Compile a one-file program, so that each start is quick; returns the command to run it."""
    path = classpath(jars)
    subprocess.run(["javac", "-cp", path, "-d", str(directory), str(source)], check=True)
    classes = os.pathsep.join([str(directory), path])
    return [java_program(), *JAVA_FLAGS, "-cp", classes, source.stem]
