"""The process that compacts: reads a job from its input, writes reports to its output.

Compaction needs NumPy and Numba and all of a core, and must neither swell nor slow the broker, so
it has a process of its own, of low priority. It changes nothing of a log but files that wait to be
swapped in, so it may be killed at any moment. It ends with the broker, whose end closes its input.
"""

import os
import sys
from queue import SimpleQueue
from threading import Thread
from typing import Final, TextIO

from headrace.errors import HeadraceError
from headrace.log.compaction_job import CompactionJob, RoundFailed, encode_report
from headrace.log.compaction_round import Round
from headrace.log.disk import SYSTEM_DISK
from headrace.log.errors import CorruptFile

NICENESS: Final = 19
"""How readily it gives way to others."""


def main() -> None:
    """Work until the input ends."""
    os.nice(NICENESS)
    jobs: SimpleQueue[str] = SimpleQueue()
    Thread(target=_listen, args=(sys.stdin, jobs), daemon=True).start()
    while True:
        _work(CompactionJob.decode(jobs.get()), sys.stdout)


def _listen(lines: TextIO, jobs: "SimpleQueue[str]") -> None:
    for line in lines:
        jobs.put(line)
    # In the middle of a round, nobody would look at the queue.
    os._exit(0)


def _work(job: CompactionJob, output: TextIO) -> None:
    try:
        for report in Round(job, SYSTEM_DISK).run():
            print(encode_report(report), file=output, flush=True)
    except (HeadraceError, OSError) as error:
        failed = RoundFailed(str(error), corrupt=isinstance(error, CorruptFile))
        print(encode_report(failed), file=output, flush=True)


if __name__ == "__main__":
    main()
