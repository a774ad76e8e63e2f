"""`headrace broker`: a process that says when it is ready, and goes when it is told to."""

import re
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import process

READY = re.compile(r"Headrace is ready at (127\.0\.0\.1:\d+) \(data in (.+), flush=(\w+)\)\n")


def ready_line(stdout: object) -> re.Match[str]:
    line = stdout.readline()  # type: ignore[attr-defined]
    found = READY.fullmatch(line)
    assert found is not None, line
    return found


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_it_announces_its_address_and_stops_cleanly(tmp_path: Path, ending: signal.Signals):
    with process("broker", "--port", "0", "--data", str(tmp_path / "data")) as broker:
        assert ready_line(broker.stdout)[2] == str(tmp_path / "data")
        broker.send_signal(ending)
        assert broker.wait(10) == 0


def test_options_win_over_the_settings_file(tmp_path: Path):
    settings = tmp_path / "own.toml"
    settings.write_text(
        '[broker]\nlisten = "127.0.0.1:0"\nflush = "interval"\ndata = "from-file"\n'
    )
    data = str(tmp_path / "from-option")
    with process("--config", str(settings), "broker", "--data", data) as broker:
        ready = ready_line(broker.stdout)
        assert (ready[2], ready[3]) == (data, "interval")
    with process("broker", "--config", str(settings), "--set", "flush=os") as broker:
        ready = ready_line(broker.stdout)
        assert (ready[2], ready[3]) == ("from-file", "os")


def test_a_data_directory_in_use_is_refused_in_one_line(tmp_path: Path):
    arguments = ("broker", "--port", "0", "--data", str(tmp_path / "data"))
    with process(*arguments) as first:
        ready_line(first.stdout)
        with process(*arguments) as second:
            _, complaint = second.communicate(timeout=10)
            assert second.returncode == 1
            assert complaint.startswith("headrace: ")
            assert complaint.count("\n") == 1


def test_an_address_in_use_is_refused_in_one_line(tmp_path: Path):
    with process("broker", "--port", "0", "--data", str(tmp_path / "one")) as first:
        address = ready_line(first.stdout)[1]
        with process("broker", "--listen", address, "--data", str(tmp_path / "two")) as second:
            _, complaint = second.communicate(timeout=10)
            assert second.returncode == 1
            assert complaint.startswith("headrace: ")
            assert complaint.count("\n") == 1
