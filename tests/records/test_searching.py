"""Searching bytes for many strings at once, against Python's own search."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.searching import SHORTEST, Search

pieces = st.binary(min_size=SHORTEST, max_size=40) | st.sampled_from(
    [b"aaaaaaaaaa", b"aaaaaaaaab", b'{"customer": "000001"}', b'{"customer": "000002"}']
)


def occurrences(data: bytes, string: bytes) -> int:
    return sum(data.startswith(string, position) for position in range(len(data)))


@given(st.lists(pieces, max_size=8), st.lists(pieces | st.binary(max_size=9), max_size=8))
@settings(deadline=None)
def test_strings_are_found_wherever_they_are(strings: list[bytes], parts: list[bytes]):
    data = b"".join(parts)
    search = Search(strings)
    assert search.count(data) == sum(occurrences(data, string) for string in set(strings))


def test_what_was_seen_before_is_not_counted_again():
    search = Search([b"customer-7"])
    assert search.count(b"customer-7 customer-7", 10) == 1
    assert search.count(b"customer-7 customer-7", 9) == 2
    assert search.longest == 10


def test_short_strings_are_left_out():
    search = Search([b"short", b""])
    assert (search.strings, search.count(b"short, and short again")) == (0, 0)


def test_strings_that_begin_and_end_alike_are_told_apart():
    values = [b'{"customer": "%06d", "country": "DE"}' % number for number in range(5000)]
    search = Search(values[::2])
    assert search.count(b"".join(values[1::2])) == 0
    assert search.count(b"".join(values[:100])) == 50
