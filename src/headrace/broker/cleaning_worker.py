"""The process that compacts: reads jobs from its input, writes reports to its output.

A number among the jobs is how many bytes a second it may move from now on.

Compaction needs NumPy and Numba and all of a core, and must neither swell nor slow the broker, so
it has a process of its own, which gives way to others (`log.giving_way`). It changes nothing of a
log but files that wait to be swapped in, so it may be killed at any moment. It ends with the
broker, whose end closes its input.
"""

import os
import sys
from queue import SimpleQueue
from threading import Thread
from typing import Final, TextIO

from headrace.broker.worker_process import become_nice
from headrace.errors import HeadraceError
from headrace.log.compaction_job import CompactionJob, RoundFailed, encode_report
from headrace.log.compaction_round import Round
from headrace.log.disk import SYSTEM_DISK
from headrace.log.errors import CorruptFile
from headrace.log.giving_way import GivingWay
from headrace.log.pace import Throttle

NICENESS: Final = 10
"""How it competes when it does not give way: beside one busy program it gets a tenth of a core, and
beside two still what the default of `compaction_floor` takes."""


def main() -> None:
    """Work until the input ends."""
    become_nice(NICENESS)
    jobs: SimpleQueue[str] = SimpleQueue()
    throttle = Throttle(0)
    Thread(target=_listen, args=(sys.stdin, jobs, throttle), daemon=True).start()
    while True:
        _work(CompactionJob.decode(jobs.get()), throttle, sys.stdout)


def _listen(lines: TextIO, jobs: "SimpleQueue[str]", throttle: Throttle) -> None:
    for line in lines:
        if line.strip().isdecimal():
            throttle.limit = int(line)
        else:
            jobs.put(line)
    # In the middle of a round, nobody would look at the queue.
    os._exit(0)


def _work(job: CompactionJob, throttle: Throttle, output: TextIO) -> None:
    throttle.rate = job.bytes_per_second
    try:
        with GivingWay(job.floor) as effort:
            for report in Round(job, SYSTEM_DISK, effort, throttle).run():
                print(encode_report(report), file=output, flush=True)
    except (HeadraceError, OSError) as error:
        failed = RoundFailed(str(error), corrupt=isinstance(error, CorruptFile))
        print(encode_report(failed), file=output, flush=True)


if __name__ == "__main__":
    main()
