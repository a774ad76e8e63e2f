"""Records and batches for property tests."""

from hypothesis import strategies as st

from headrace.records import Codec, Record

MAX_TIMESTAMP = 253_402_300_799_999
"""The end of the year 9999, which is as far as Python's own timestamps go."""

small_bytes = st.binary(max_size=40)
large_bytes = st.builds(lambda seed, count: seed * count, small_bytes, st.integers(0, 300))
optional_bytes = st.none() | small_bytes | large_bytes
timestamps = st.integers(0, MAX_TIMESTAMP)
headers = st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), optional_bytes),
    max_size=4,
).map(tuple)
codecs = st.sampled_from(Codec)

records = st.builds(Record, optional_bytes, optional_bytes, timestamps, st.just(()) | headers)
record_lists = st.lists(records, min_size=1, max_size=30)
