"""A Spark standalone cluster on this machine: a master and a worker, each a process of its own.

    with StandaloneSpark(directory) as spark:
        spark_session(StreamsSettings(master=spark.master))

Both come from the installed PySpark and run on the Java that flows run on. Executors are processes
that the worker starts; they inherit its environment, and so find the packages that we have here.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.streams.java import find_java
from headrace.testing.probe import free_ports

_START_SECONDS = 300.0
_STOP_SECONDS = 20.0
_CORES = 4
"""As many as two applications want; they are only numbers to Spark."""
_MEMORY = "3g"
_DAEMON_MEMORY = "256m"
_QUIET = "-Dlog4j2.configurationFile=file:{0}"
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
"""
"""Warnings, and who came and went."""

_EXECUTOR = "CoarseGrainedExecutorBackend"


class StandaloneSpark:
    """A master and a worker that live as long as the `with` block, logging into a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # Processes end with the thread that has started them, which may not be that of a test.
        self._starter = ThreadPoolExecutor(1, "standalone-spark")
        self._master_port, self._worker_port = free_ports(2)
        self.master = f"spark://127.0.0.1:{self._master_port}"
        """What flows are told."""

    def __enter__(self) -> Self:
        """Start both and wait until the worker is part of the cluster."""
        home = self._directory / "java"
        find_java(os.environ).write_launcher(home)
        (self._directory / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
        try:
            self._start("master", "--port", str(self._master_port))
            self._await("master", "I have been elected leader")
            self.start_worker()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop both, and the executors with them."""
        self._stop()

    def start_worker(self) -> None:
        """Start the worker, again if it was killed."""
        place = ("--port", str(self._worker_port), "--work-dir", str(self._directory / "work"))
        size = ("--cores", str(_CORES), "--memory", _MEMORY)
        joined = self._said("worker").count(_JOINED)
        self._start("worker", *place, *size, self.master)
        self._await("worker", _JOINED, joined + 1)

    def kill_worker(self) -> None:
        """End the worker and its executors without giving them a chance to do anything."""
        executors = self.executors()
        worker = self._processes.pop("worker")
        worker.kill()
        worker.wait()
        for executor in executors:
            _kill(executor)

    def kill_executors(self) -> int:
        """End all executors without giving them a chance to do anything; how many there were."""
        executors = self.executors()
        for executor in executors:
            _kill(executor)
        return len(executors)

    def executors(self) -> list[int]:
        """The process ids of the worker's executors."""
        return [pid for pid in _children(self._processes["worker"].pid) if _runs(pid, _EXECUTOR)]

    def _start(self, role: str, *arguments: str) -> None:
        import pyspark

        options = _QUIET.format(self._directory / "log4j2.properties")
        environment = {
            **os.environ,
            "JAVA_HOME": str(self._directory / "java"),
            "PYTHONPATH": os.pathsep.join([*_import_path()]),
            "SPARK_DAEMON_JAVA_OPTS": options,
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
        }
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        name = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
        # Port 0 of the web page is any that is free.
        place = ("--host", "127.0.0.1", "--webui-port", "0")
        with self._log(role).open("ab") as log:
            self._processes[role] = self._starter.submit(
                subprocess.Popen,
                [*_with_us(), str(program), name, *place, *arguments],
                cwd=self._directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ).result()

    def _await(self, role: str, words: str, times: int = 1) -> None:
        deadline = time.monotonic() + _START_SECONDS
        process = self._processes[role]
        while self._said(role).count(words) < times:
            said = f"\n{self._said(role)[-4000:]}"
            assert process.poll() is None, f"Spark's {role} exited with {process.returncode}:{said}"
            assert time.monotonic() < deadline, f"Spark's {role} is not ready:{said}"
            time.sleep(0.05)

    def _said(self, role: str) -> str:
        log = self._log(role)
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def _log(self, role: str) -> Path:
        return self._directory / f"{role}.log"

    def _stop(self) -> None:
        # The worker first, which ends its executors.
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._starter.shutdown()


_JOINED = "Successfully registered with master"


def _with_us() -> list[str]:
    """What lets a process end when this one does, however that happens, where the system can."""
    program = shutil.which("setpriv")
    return [] if program is None else [program, "--pdeathsig", "KILL", "--"]


def _import_path() -> Iterator[str]:
    """Where this process finds what is neither Python's own nor installed beside it."""
    for place in sys.path:
        if place and not re.search(r"site-packages|lib/python|\.zip$", place):
            yield str(Path(place).resolve())


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task")
    found: list[int] = []
    for thread in threads.iterdir() if threads.exists() else ():
        with contextlib.suppress(OSError):
            found += map(int, (thread / "children").read_text().split())
    return found


def _runs(pid: int, words: str) -> bool:
    try:
        return words.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
