"""A real process on a real disk, killed while it writes."""

import subprocess
import sys
from pathlib import Path
from random import Random

from headrace.clock import SystemClock
from headrace.log import LogSettings, PartitionLog
from headrace.records import BatchHeader
from tests.log.batches import read_headers

SETTINGS = LogSettings(segment_bytes=20_000, index_interval_bytes=500)

WRITER = """
import sys
from pathlib import Path
from headrace.clock import SystemClock
from headrace.log import PartitionLog
from headrace.records import build_batch, read_header
from tests.log.test_kill import SETTINGS

log = PartitionLog.open(Path(sys.argv[1]), SETTINGS, clock=SystemClock())
state = log.producers.active().get(1)
sequence = state.last_sequence + 1 if state else 0
for number in range(10**9):
    batch = build_batch(
        [(None, b"x" * 300)], timestamp=0, producer_id=1, producer_epoch=0, base_sequence=sequence
    )
    log.append(batch, read_header(batch))
    sequence += 1
    if number % 7 == 0:
        print(log.flush(), flush=True)
    if number % 50 == 0:
        log.checkpoint()
    if number == 3:
        print("ready", flush=True)
"""


def test_nothing_flushed_is_missing_and_nothing_is_doubled_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    random = Random(1)
    flushed = 0
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        with writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                if line == "ready\n":
                    break
            for _ in range(random.randint(0, 60)):
                flushed = int(writer.stdout.readline())
            writer.kill()
            last = [line for line in writer.stdout.read().split("\n")[:-1] if line]
            flushed = int(last[-1]) if last else flushed
        log = PartitionLog.open(path, SETTINGS, clock=SystemClock())
        assert log.end_offset >= flushed
        headers: list[BatchHeader] = list(read_headers(log, 0, 5000))
        assert [header.base_offset for header in headers] == list(range(log.end_offset))
        assert [header.base_sequence for header in headers] == list(range(log.end_offset))
        log.abandon()
