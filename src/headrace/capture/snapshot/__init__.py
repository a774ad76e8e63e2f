"""Tables read in chunks while changes flow: without locks, and from where a crash left off.

`windows` is the algorithm, `tasks` what is stored of its progress, `reading` the threads that read.
"""

from headrace.capture.snapshot.reading import ChunkReaders
from headrace.capture.snapshot.tasks import SnapshotTask
from headrace.capture.snapshot.windows import Closed, Opened, Stale, Windows

__all__ = ["ChunkReaders", "Closed", "Opened", "SnapshotTask", "Stale", "Windows"]
