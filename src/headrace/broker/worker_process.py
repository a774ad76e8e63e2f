"""Starting the processes that do a broker's heavy work, so that they give way to it."""

import os
import subprocess
import sys
from contextlib import suppress


def start_worker(module: str) -> "subprocess.Popen[str]":
    """Run a module as a worker that is talked to by lines of text."""
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A Ctrl-C on the broker's terminal is the broker's to handle. A session of its own would do
        # as well, but Linux shares processors out among sessions first (see sched(7), autogroup):
        # the worker would get as much as the broker and all its neighbours, whatever its niceness.
        process_group=0,
    )


def become_nice(niceness: int) -> None:
    """To be called by a worker when it begins; not every sandbox allows it."""
    with suppress(OSError):
        os.nice(niceness)
