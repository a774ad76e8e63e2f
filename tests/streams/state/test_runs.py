"""The order of rows, which decides what is stored where."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.state.runs import Identities

FEW = st.integers(0, 5)


@settings(deadline=None)
@given(st.lists(st.tuples(FEW, FEW), max_size=300))
def test_rows_are_in_the_order_of_both_hashes_and_equal_ones_stay_in_theirs(pairs):
    keys, rows = (np.array([pair[side] for pair in pairs], np.uint64) for side in (0, 1))
    order = Identities(keys, rows).order()
    assert order.tolist() == sorted(range(len(pairs)), key=lambda place: pairs[place])
