"""What the checkpoint remembers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka import Partition
from headrace.streams.source import InvalidOffsets
from headrace.streams.source.offsets import SourceOffsets

places = st.dictionaries(
    st.builds(Partition, st.sampled_from(["a", "b.c", "é"]), st.integers(0, 1000)),
    st.integers(0, 2**63 - 1),
    max_size=5,
)


@given(
    places,
    st.dictionaries(st.text(), st.text(), max_size=2),
    places,
    places,
    st.integers(1, 9),
    st.none() | st.integers(0, 2**50),
)
def test_what_is_stored_is_found_again(offsets, ids, begins, lost, tasks, clock) -> None:
    stored = SourceOffsets(offsets, ids, begins, lost, tasks, clock)
    text = json.dumps(stored.to_json())
    assert SourceOffsets.from_json(json.loads(text)) == stored


def test_equal_offsets_are_equal_texts() -> None:
    one, other = Partition("orders", 2), Partition("orders", 10)
    forth = SourceOffsets({one: 1, other: 2}).to_json()
    back = SourceOffsets({other: 2, one: 1}).to_json()
    assert json.dumps(forth) == json.dumps(back)
    assert forth == {"version": 1, "topics": {"orders": {"2": 1, "10": 2}}}


def test_another_version_is_refused() -> None:
    with pytest.raises(InvalidOffsets, match="version 2"):
        SourceOffsets.from_json({"version": 2, "topics": {}})
