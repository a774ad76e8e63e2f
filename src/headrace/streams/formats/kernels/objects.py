"""Find the parts of many JSON objects and arrays at once.

What is found are spans: for each row the kind of a value and where it starts and ends in the data.
A field that is missing or null has the kind `ABSENT`. Nested values stay spans until somebody looks
into them with the same kernels.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from headrace.records.kernels.compiled import (
    Bytes,
    Int32s,
    Int64s,
    compiled,
    read_only,
)
from headrace.streams.formats.kernels.memory import address, byte_at, word_at
from headrace.streams.formats.kernels.texts import unescape
from headrace.streams.formats.kernels.tokens import (
    ABSENT,
    BROKEN,
    NULL,
    OBJECT,
    PLAIN,
    skip_name,
    skip_spaces,
    skip_value,
)

FINE: Final = 0
NOT_JSON: Final = 1
NOT_AN_OBJECT: Final = 2

_LONGEST_ESCAPE: Final = 6
_WORD: Final = 8


class Spans(NamedTuple):
    """One value per row: its kind, and where it starts and ends."""

    kinds: Bytes
    starts: Int32s
    ends: Int32s


class Names(NamedTuple):
    """The names of the fields that are looked for; each begins at a multiple of a word."""

    data: Bytes
    starts: Int32s
    lengths: Int32s


def names_of(fields: Iterable[str]) -> Names:
    """The names in UTF-8, padded to whole words, so that they can be compared word by word."""
    encoded = [field.encode() for field in fields]
    padded = [name + bytes(_WORD - len(name) % _WORD) for name in encoded]
    starts = np.cumsum([0, *map(len, padded)], dtype=np.int32)[:-1]
    lengths = np.array([len(name) for name in encoded], np.int32)
    return Names(read_only(b"".join(padded), np.uint8), starts, lengths)


@compiled
def _same(memory: int, start: int, names: int, begin: int, length: int) -> bool:
    """Whether `length` bytes of both, and of `data` a word more, which must be there, agree."""
    place = 0
    while place + 8 <= length:
        if word_at(memory, start + place) != word_at(names, begin + place):
            return False
        place += 8
    rest = np.uint64(8 * (length - place))
    mask = (np.uint64(1) << rest) - np.uint64(1)
    word = word_at(memory, start + place)
    return bool((word & mask) == word_at(names, begin + place))


@compiled
def _find(
    memory: int, size: int, start: int, length: int, names: int, starts: Int32s, lengths: Int32s
) -> int:
    """Which field has this name, or -1."""
    roomy = start + length + 8 <= size
    for field in range(len(starts)):
        if lengths[field] != length:
            continue
        begin = int(starts[field])
        if roomy:
            if _same(memory, start, names, begin, length):
                return field
            continue
        place = 0
        while place < length and byte_at(memory, start + place) == byte_at(names, begin + place):
            place += 1
        if place == length:
            return field
    return -1


@compiled
def read_objects(
    data: Bytes,
    whole: Spans,
    names: Names,
    kinds: Bytes,
    starts: Int32s,
    ends: Int32s,
    problems: Bytes,
    places: Int32s,
) -> None:
    """Find the fields of the object in each row: `kinds`, `starts`, `ends` are fields by rows.

    `kinds` must come filled with `ABSENT`. Of fields that occur twice the last one counts. A row
    whose text is no JSON object gets a problem, and its place.
    """
    # Taking an array out of a tuple counts a reference, which costs more than what is done here.
    whole_kinds, whole_starts, whole_ends = whole
    name_data, name_starts, name_lengths = names
    memory = address(data)
    known = address(name_data)
    size = len(data)
    fields = len(name_starts)
    longest = 0
    for field in range(fields):
        longest = max(longest, int(name_lengths[field]))
    scratch = np.empty(longest * _LONGEST_ESCAPE + _WORD, np.uint8)
    for row in range(len(whole_kinds)):
        if whole_kinds[row] == ABSENT:
            continue
        end = int(whole_ends[row])
        position = skip_spaces(memory, int(whole_starts[row]), end)
        if position >= end or byte_at(memory, position) != 0x7B:
            behind, _ = skip_value(memory, position, end)
            whole_text = behind != BROKEN and skip_spaces(memory, behind, end) == end
            problems[row] = NOT_AN_OBJECT if whole_text else NOT_JSON
            places[row] = position
            continue
        position = skip_spaces(memory, position + 1, end)
        more = position < end and byte_at(memory, position) != 0x7D
        right = True
        guess = 0
        while more:
            # Producers tend to keep an order: the name is probably the one after the last.
            field = -1
            value = BROKEN
            if guess < fields and position < end and byte_at(memory, position) == 0x22:
                length = int(name_lengths[guess])
                close = position + 1 + length
                if (
                    close + 8 <= end
                    and byte_at(memory, close) == 0x22
                    and byte_at(memory, close + 1) == 0x3A
                    and _same(memory, position + 1, known, int(name_starts[guess]), length)
                ):
                    field = guess
                    value = skip_spaces(memory, close + 2, end)
            if field < 0:
                name_end, value, escaped = skip_name(memory, position, end)
                if value == BROKEN:
                    right = False
                    break
                length = name_end - position - 1
                if not escaped:
                    field = _find(
                        memory, size, position + 1, length, known, name_starts, name_lengths
                    )
                elif length + _WORD <= len(scratch):
                    length = unescape(memory, position + 1, name_end, scratch, 0)
                    field = _find(
                        address(scratch), len(scratch), 0, length, known, name_starts, name_lengths
                    )
            behind, kind = skip_value(memory, value, end)
            if behind == BROKEN:
                position = value
                right = False
                break
            if field >= 0:
                kinds[field, row] = ABSENT if kind == NULL else kind
                starts[field, row] = value
                ends[field, row] = behind
                guess = field + 1
            position = skip_spaces(memory, behind, end)
            if position >= end or byte_at(memory, position) != 0x2C:
                break
            position = skip_spaces(memory, position + 1, end)
        ended = right and position < end and byte_at(memory, position) == 0x7D
        if not ended or skip_spaces(memory, position + 1, end) != end:
            problems[row] = NOT_JSON
            places[row] = position


@compiled
def count_entries(data: Bytes, whole: Spans, kind: int, counts: Int32s) -> int:
    """How many elements each array has, or each object entries; rows of another kind have none."""
    memory = address(data)
    whole_kinds, whole_starts, whole_ends = whole
    total = 0
    for row in range(len(whole_kinds)):
        entries = 0
        if whole_kinds[row] == kind:
            end = int(whole_ends[row])
            position = skip_spaces(memory, int(whole_starts[row]) + 1, end)
            while byte_at(memory, position) != 0x7D and byte_at(memory, position) != 0x5D:
                if kind == OBJECT:
                    _, position, _ = skip_name(memory, position, end)
                position, _ = skip_value(memory, position, end)
                position = skip_spaces(memory, position, end)
                entries += 1
                if byte_at(memory, position) == 0x2C:
                    position = skip_spaces(memory, position + 1, end)
        counts[row] = entries
        total += entries
    return total


@compiled
def read_entries(
    data: Bytes, whole: Spans, kind: int, keys: Spans, values: Spans, parents: Int64s
) -> None:
    """Find the elements of each array, or keys and values of each object, row after row.

    The text has been checked before; `parents` says which row an entry belongs to.
    """
    memory = address(data)
    whole_kinds, whole_starts, whole_ends = whole
    key_kinds, key_starts, key_ends = keys
    value_kinds, value_starts, value_ends = values
    entry = 0
    for row in range(len(whole_kinds)):
        if whole_kinds[row] != kind:
            continue
        end = int(whole_ends[row])
        position = skip_spaces(memory, int(whole_starts[row]) + 1, end)
        while byte_at(memory, position) != 0x7D and byte_at(memory, position) != 0x5D:
            if kind == OBJECT:
                name_end, value, escaped = skip_name(memory, position, end)
                key_kinds[entry] = PLAIN + 1 if escaped else PLAIN
                key_starts[entry] = position
                key_ends[entry] = name_end + 1
                position = value
            behind, found = skip_value(memory, position, end)
            value_kinds[entry] = ABSENT if found == NULL else found
            value_starts[entry] = position
            value_ends[entry] = behind
            parents[entry] = row
            entry += 1
            position = skip_spaces(memory, behind, end)
            if byte_at(memory, position) == 0x2C:
                position = skip_spaces(memory, position + 1, end)
