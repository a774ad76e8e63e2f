"""`headrace up` with small programs: order, new starts, logs, and nothing left behind."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.console.supervising.control import SupervisorRefused, ask
from headrace.console.supervising.parts import CannotSupervise, Stage, parts_of
from headrace.console.supervising.record import read_record
from headrace.settings import BrokerSettings, PartSettings, Settings, UpSettings
from tests.console.stack import Up, eventually, free_port

SETTINGS = """
[up]
broker = false
console = false
backoff = "50ms"
backoff_max = "200ms"
patience = "2s"
"""

PART = """
[[up.parts]]
name = "{name}"
command = ["{python}", "{program}"]
"""

LIVES = "import time\nprint('alive', flush=True)\ntime.sleep(600)\n"

NOTES = """
import signal, sys, time
def end(*_):
    open("order", "a").write("{name} ")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
open("order", "a").write("+{name} ")
time.sleep(600)
"""


@pytest.fixture
def up(tmp_path: Path) -> Iterator["Starter"]:
    starter = Starter(tmp_path)
    yield starter
    for each in starter.started:
        each.stop()


class Starter:
    """Starts `headrace up` with programs that a test writes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[Up] = []

    def __call__(self, more: str = "", **programs: str) -> Up:
        settings = SETTINGS
        for name, program in programs.items():
            file = self.directory / f"{name}.py"
            file.write_text(program)
            settings += PART.format(name=name, python=sys.executable, program=file)
        self.started.append(Up(self.directory, settings + more))
        return self.started[-1]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "zombie" not in Path(f"/proc/{pid}/status").read_text()


def test_a_line_says_that_everything_runs_and_a_log_what_each_part_says(up: Starter) -> None:
    running = up(one=LIVES)
    assert running.await_ready() == "Headrace is up at 127.0.0.1:9092"
    eventually(lambda: "alive" in running.log("one"))
    assert running.doing("one") == "running"


def test_a_part_that_dies_is_started_again_after_a_pause(up: Starter) -> None:
    running = up(one=LIVES)
    running.await_ready()
    before = running.pid("one")
    os.kill(before, signal.SIGKILL)
    eventually(lambda: running.doing("one") == "running" and running.pid("one") != before)
    seen = running.seen.part("one")
    assert seen is not None
    assert (seen.restarts, seen.exit) == (1, -9)


def test_a_part_that_keeps_failing_says_why_and_the_others_go_on(up: Starter) -> None:
    running = up(good=LIVES, bad="raise SystemExit('no such thing as luck')")
    eventually(lambda: (part := running.seen.part("bad")) and part.restarts >= 3)
    said = eventually(lambda: (part := running.seen.part("bad")) and part.said)
    assert said == "no such thing as luck"
    assert running.doing("good") == "running"


def test_a_part_that_is_not_to_run_again_is_done_when_it_ends_well(up: Starter) -> None:
    running = up(more="again = false\n", once="print('done')")
    eventually(lambda: running.doing("once") == "finished")
    seen = running.seen.part("once")
    assert seen is not None
    assert seen.restarts == 0


def test_parts_stop_in_the_order_in_which_they_need_each_other(up: Starter) -> None:
    running = up(
        more="first = true\n", work=NOTES.format(name="work"), base=NOTES.format(name="base")
    )
    running.await_ready()
    eventually(lambda: (up.directory / "order").read_text().count("+") == 2)
    running.stop()
    assert (up.directory / "order").read_text() == "+base +work work base "


def test_a_part_that_does_not_end_is_killed_with_all_that_it_started(up: Starter) -> None:
    stubborn = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('child', 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    running = up(stubborn=stubborn)
    running.await_ready()
    child = int(eventually(lambda: _read(up.directory / "child")))
    pid = running.pid("stubborn")
    began = time.monotonic()
    running.stop()
    assert time.monotonic() - began < 30
    eventually(lambda: not is_alive(child) and not is_alive(pid), 10)
    assert running.process.returncode == 0


def test_nothing_is_left_when_the_supervisor_is_killed(up: Starter) -> None:
    running = up(one=LIVES, two=LIVES)
    running.await_ready()
    pids = [running.pid("one"), running.pid("two")]
    running.process.kill()
    running.process.communicate()
    eventually(lambda: not any(map(is_alive, pids)), 10)
    assert running.seen.parts == (), "a supervisor that is gone is not believed"


def test_parts_are_stopped_and_started_through_the_socket(up: Starter) -> None:
    running = up(one=LIVES)
    running.await_ready()
    socket = running.seen.socket
    before = running.pid("one")
    ask(socket, "stop", "one")
    eventually(lambda: running.doing("one") == "stopped")
    assert not is_alive(before)
    ask(socket, "start", "one")
    eventually(lambda: running.doing("one") == "running")
    between = running.pid("one")
    ask(socket, "restart", "one")
    eventually(lambda: running.doing("one") == "running" and running.pid("one") != between)
    with pytest.raises(SupervisorRefused, match="no part two"):
        ask(socket, "stop", "two")
    with pytest.raises(SupervisorRefused, match="cannot be asked to dance"):
        ask(socket, "dance", "one")
    with pytest.raises(SupervisorRefused, match="is no flow"):
        ask(socket, "rebuild", "one", "v2")


def test_only_the_owner_may_talk_to_the_socket(up: Starter) -> None:
    running = up(one=LIVES)
    running.await_ready()
    assert Path(running.seen.socket).stat().st_mode & 0o077 == 0


def test_one_directory_has_one_supervisor(up: Starter) -> None:
    first = up(one=LIVES)
    first.await_ready()
    second = up(one=LIVES)
    _, errors = second.process.communicate(timeout=30)
    assert second.process.returncode == 1
    assert "Another `headrace up` runs with headrace-up" in errors
    assert first.doing("one") == "running"


def test_a_record_of_a_later_version_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text('{"version": 99, "process": 1}')
    assert read_record(tmp_path).parts == ()


def test_the_parts_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders.py").touch()
    extra = PartSettings(name="database", command=("postgres",), first=True)
    settings = Settings(up=UpSettings(flows=("orders.py",), parts=(extra,)))
    found = {part.name: part.stage for part in parts_of(settings)}
    assert found == {
        "broker": Stage.BROKER,
        "database": Stage.FIRST,
        "orders": Stage.WORK,
        "views": Stage.WORK,
        "console": Stage.CONSOLE,
    }


def test_what_cannot_be_run_is_refused_before_anything_starts() -> None:
    with pytest.raises(CannotSupervise, match=r"flows names missing\.py"):
        parts_of(Settings(up=UpSettings(flows=("missing.py",))))
    with pytest.raises(CannotSupervise, match="one port"):
        parts_of(Settings(broker=BrokerSettings(listen=f"127.0.0.1:{free_port()}")))
    twice = (PartSettings(name="broker", command=("true",)),)
    with pytest.raises(CannotSupervise, match="Two parts are called broker"):
        parts_of(Settings(up=UpSettings(parts=twice)))


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
