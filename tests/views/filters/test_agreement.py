"""What a database says of its rows is what is said of rows in memory, whatever they are."""

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.views.filters import Order, matches, sort_key
from headrace.views.filters.language import (
    And,
    Between,
    Comparison,
    Filter,
    IsNull,
    Not,
    OneOf,
    Or,
    TextTest,
    parse_column,
)
from headrace.views.materialized.description import ViewDescription
from headrace.views.materialized.records import Incoming
from headrace.views.materialized.store import Store
from tests.views.conftest import StoreFactory

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
numbers = st.one_of(
    st.integers(-(1 << 53), 1 << 53), st.floats(allow_nan=False, allow_infinity=False, width=32)
)
literals = st.one_of(texts, numbers, st.booleans(), st.sampled_from(["a", "b", 0, 1, 1.0]))
values = st.one_of(st.none(), literals, st.lists(numbers, max_size=2))
columns = st.sampled_from([parse_column(each) for each in ("a", "b", "c.d", '"odd name"')])
rows = st.fixed_dictionaries(
    {},
    optional={
        "a": values,
        "b": values,
        "c": st.one_of(values, st.fixed_dictionaries({"d": values})),
        "odd name": values,
    },
)
tests = st.one_of(
    st.builds(Comparison, columns, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), literals),
    st.builds(OneOf, columns, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(Between, columns, literals, literals),
    st.builds(TextTest, columns, st.sampled_from(["contains", "starts"]), texts),
    st.builds(IsNull, columns),
)
filters = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
orders = st.lists(st.builds(Order, columns, st.booleans()), max_size=2).map(tuple)


@pytest.fixture
def store(new_store: StoreFactory) -> Store:
    return new_store()


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(rows, max_size=8), filters, orders)
def test_a_store_and_memory_want_the_same_rows_in_the_same_order(
    store: Store, some: list[dict[str, Any]], wanted: Filter, order: tuple[Order, ...]
):
    check_agreement(store, some, wanted, order)


def check_agreement(
    store: Store, some: list[dict[str, Any]], wanted: Filter, order: tuple[Order, ...]
) -> None:
    """A store must say of rows what memory says of them."""
    description = ViewDescription("view", "topic")
    store.open(description)
    state = store.reset(description, "another example")
    incoming = [
        Incoming(f"k{number}", orjson.dumps(row), 0, number) for number, row in enumerate(some)
    ]
    store.apply(incoming, {0: len(some)}, state=state)
    found = store.read(lambda snapshot: snapshot.select(wanted, order))
    expected = [(f"k{number}", row) for number, row in enumerate(some) if matches(wanted, row)]
    expected.sort(key=lambda each: sort_key(order, *each))
    assert [each.key for each in found] == [key for key, _ in expected]
    assert store.read(lambda snapshot: snapshot.count(wanted)) == len(expected)
