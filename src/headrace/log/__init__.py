"""Append-only storage: no sockets, no asyncio.

To follow a record in: `partition` (append) to `segment` and `index`; on its way to the disk,
`durability` and `checkpoint`; on its way out, `partition` (read) to `segment` and `slices`, or by
time through `lookup`. What happens after a crash is in `recovery`; what makes room is in
`retention` and `removal`. How sealed segments are replaced by rewritten ones is in `rewriting` and
`manifest`; compaction rewrites them in `compaction` and `compaction_round`, erasing in
`excision_rewrite`, and `excision_check` makes sure of that. `archive` is for segments that are kept
elsewhere. `directory` and `journal` hold what a broker keeps besides
records. `framing` is the format of all files that are not segments, and `disk` the only door to any
file.
"""

from headrace.log.directory import DataDirectory, PartitionDirectory
from headrace.log.disk import SYSTEM_DISK, Disk, SystemDisk
from headrace.log.journal import Journal
from headrace.log.partition import Append, PartitionLog
from headrace.log.producers import ProducerBatch, ProducerState, ProducerStates
from headrace.log.recovery_report import Recovery
from headrace.log.removal import DoomedDirectory, Retired
from headrace.log.rewriting import RewrittenSegment, SegmentSwap
from headrace.log.segment import Segment
from headrace.log.settings import CompactionPolicy, Flush, LogSettings
from headrace.log.slices import LogSlice
from headrace.log.verification import Damage

__all__ = [
    "SYSTEM_DISK",
    "Append",
    "CompactionPolicy",
    "Damage",
    "DataDirectory",
    "Disk",
    "DoomedDirectory",
    "Flush",
    "Journal",
    "LogSettings",
    "LogSlice",
    "PartitionDirectory",
    "PartitionLog",
    "ProducerBatch",
    "ProducerState",
    "ProducerStates",
    "Recovery",
    "Retired",
    "RewrittenSegment",
    "Segment",
    "SegmentSwap",
    "SystemDisk",
]
