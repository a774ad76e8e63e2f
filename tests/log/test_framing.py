"""The format of Headrace's own files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.errors import CorruptFile, UnsupportedFormat
from headrace.log.framing import (
    HEADER_SIZE,
    FileFormat,
    frame,
    frames,
    read_framed,
    write_framed,
)
from tests.log.batches import new_disk

FORMAT = FileFormat(b"TEST", 3)
PATH = Path("/data/file")


def payloads(data: bytes) -> list[bytes]:
    return [payload for _, payload in frames(data, 0)]


@given(st.lists(st.binary(max_size=50)))
def test_entries_are_read_as_they_were_written(entries: list[bytes]) -> None:
    assert payloads(b"".join(map(frame, entries))) == entries


def test_an_entry_torn_at_any_byte_is_left_out() -> None:
    whole, torn = frame(b"whole"), frame(b"torn")
    for length in range(len(torn)):
        assert payloads(whole + torn[:length]) == [b"whole"]


def test_any_flipped_bit_is_noticed() -> None:
    data = frame(b"first") + frame(b"second")
    for bit in range(len(frame(b"first")) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert payloads(bytes(flipped)) == []


def test_zeros_are_no_entry() -> None:
    assert payloads(bytes(100)) == []


def test_a_file_is_replaced_as_a_whole() -> None:
    disk = new_disk()
    write_framed(disk, PATH, FORMAT, [b"old"])
    write_framed(disk, PATH, FORMAT, [b"new", b"er"])
    assert read_framed(disk, PATH, FORMAT, 2) == [b"new", b"er"]
    assert disk.names(PATH.parent) == ["file"]
    assert disk.open_descriptors == 0


def test_a_replacement_without_room_leaves_the_old_file_and_nothing_else() -> None:
    disk = new_disk()
    write_framed(disk, PATH, FORMAT, [b"old"])
    with disk.full(room=20), pytest.raises(OSError, match="No space"):
        write_framed(disk, PATH, FORMAT, [b"new" * 10])
    assert read_framed(disk, PATH, FORMAT, 1) == [b"old"]
    assert disk.names(PATH.parent) == ["file"]
    assert disk.open_descriptors == 0


def test_a_missing_entry_is_damage() -> None:
    disk = new_disk()
    write_framed(disk, PATH, FORMAT, [b"one", b"two"])
    del disk.file(PATH).data[-1:]
    with pytest.raises(CorruptFile, match="1 of 2 entries"):
        read_framed(disk, PATH, FORMAT, 2)


def test_another_kind_of_file_is_refused() -> None:
    with pytest.raises(UnsupportedFormat, match="begins with b'ELSE'"):
        FORMAT.check(FileFormat(b"ELSE", 3).header(), PATH)


def test_another_version_is_refused_with_advice() -> None:
    with pytest.raises(UnsupportedFormat, match=r"version 4 .* knows 3; use the Headrace version"):
        FORMAT.check(FileFormat(b"TEST", 4).header(), PATH)


def test_a_damaged_beginning_is_told_from_a_foreign_one() -> None:
    header = bytearray(FORMAT.header())
    header[0] ^= 1
    with pytest.raises(CorruptFile, match="checksum"):
        FORMAT.check(header, PATH)
    with pytest.raises(CorruptFile, match="cut short"):
        FORMAT.check(header[: HEADER_SIZE - 1], PATH)
