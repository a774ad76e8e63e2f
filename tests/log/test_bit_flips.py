"""One flipped bit, anywhere: it is noticed, it is named, and it costs nothing else."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.clock import ManualClock
from headrace.log import DataDirectory, LogSettings, PartitionLog
from headrace.log.errors import CorruptFile, CorruptRecords
from headrace.records import iterate_headers
from tests.log.batches import NOW, append, append_idempotent, make_batch

LOG = LogSettings(segment_bytes=700, index_interval_bytes=200)
ENTRIES = [b"entry %d" % number * number for number in range(12)]


def open_log(directory: DataDirectory) -> PartitionLog:
    return PartitionLog.open(
        directory.partition_path("events", 0), LOG, clock=ManualClock(NOW), disk=directory.disk
    )


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a log of several segments and epochs, and a journal."""
    path = tmp_path_factory.mktemp("pristine") / "data"
    for life in range(2):
        with DataDirectory.open(path) as directory:
            log = open_log(directory)
            for number in range(8):
                append(log, make_batch([NOW + 10 * life + number] * (number % 3 + 1)))
                append_idempotent(log, 8 * life + number, epoch=0)
            log.advance(log.flush())
            if life == 0:
                log.checkpoint()
                log.abandon()
            else:
                log.close()
            with directory.journal("notes") as journal:
                for entry in ENTRIES[life::2]:
                    journal.append(entry)
                    journal.flush()
    return path


def read_log(log: PartitionLog) -> tuple[dict[int, bytes], list[str]]:
    """All batches by their offset, and what the errors say about those that cannot be read."""
    batches: dict[int, bytes] = {}
    damage = []
    offset = log.start_offset
    while offset < log.high_watermark:
        following = offset
        try:
            data = log.read(offset, 400).read()
        except CorruptRecords as error:
            damage.append(str(error))
            following = error.next_offset
        else:
            for position, header in iterate_headers(data):
                batches[header.base_offset] = data[position : position + header.size]
                following = header.next_offset
        assert following > offset
        offset = following
    return batches, damage


def read_journal(directory: DataDirectory) -> list[bytes] | str:
    """All entries, or why there are none."""
    try:
        with directory.journal("notes") as journal:
            return list(journal.entries())
    except CorruptFile as error:
        return str(error)


def files(path: Path) -> Iterator[Path]:
    return (each for each in sorted(path.rglob("*")) if each.is_file() and each.name != ".lock")


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.fixture(scope="module")
def expected(pristine: Path) -> dict[int, bytes]:
    copy = pristine.with_name("expected")
    shutil.copytree(pristine, copy)
    with DataDirectory.open(copy) as directory:
        log = open_log(directory)
        batches, damage = read_log(log)
        log.close()
    assert not damage
    assert len(batches) == 32
    return batches


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_flipped_bit_is_named_and_costs_nothing_else(
    pristine: Path, expected: dict[int, bytes], tmp_path: Path, data: st.DataObject
) -> None:
    copy = tmp_path / "data"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(pristine, copy)
    victim = data.draw(st.sampled_from(list(files(copy))), "file")
    bit = data.draw(st.integers(0, victim.stat().st_size * 8 - 1), "bit")
    flip(victim, bit)
    if victim.name == "headrace.meta":
        with pytest.raises(CorruptFile, match=r"headrace\.meta"):
            DataDirectory.open(copy)
        return
    with DataDirectory.open(copy) as directory:
        log = open_log(directory)
        batches, damage = read_log(log)
        known = log.damage
        log.close()
        notes = read_journal(directory)
    for offset, batch in batches.items():
        assert batch == expected[offset]
    lost = sorted(set(expected) - set(batches))
    if victim.suffix == ".log":
        assert len(lost) == len(damage) == len(known) == 1
        assert str(victim) in damage[0]
        assert f"offsets {lost[0]} to " in damage[0]
        assert known[0].position <= bit // 8 < known[0].end
    else:
        assert not lost
        assert not damage
    if victim.suffix == ".journal" and isinstance(notes, str):
        assert f"{victim} is damaged" in notes
    else:
        assert notes == ENTRIES[0::2] + ENTRIES[1::2]
