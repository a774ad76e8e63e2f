import os
import subprocess
import sys

from benchmarks.process import cpu_seconds, memory_bytes

SPEND = """
import time
while time.process_time() < 0.2:
    pass
"""
CHILD = SPEND + "print('spent', flush=True); input()"
PARENT = SPEND + f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_cpu_time_and_memory_are_those_of_a_process_with_its_children():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "spent\n"
        assert cpu_seconds(process.pid) > 0.3
        assert memory_bytes(process.pid) > 2_000_000
        process.stdin.write("\n")


def test_a_process_can_measure_itself():
    assert cpu_seconds(os.getpid()) > 0
    assert memory_bytes(os.getpid()) > 2_000_000


def test_a_child_that_has_ended_and_was_not_waited_for_takes_no_memory():
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert memory_bytes(ended.pid) == 0
        assert memory_bytes(os.getpid()) > 0
        assert cpu_seconds(os.getpid()) > 0
