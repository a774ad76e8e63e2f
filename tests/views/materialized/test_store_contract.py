"""What every store of a view promises, wherever it keeps its rows."""

from functools import partial

import orjson
import pytest

from headrace.views.errors import StoreUnavailable
from headrace.views.filters import parse_filter, parse_order
from headrace.views.materialized import lookup
from headrace.views.materialized.description import ViewDescription
from headrace.views.materialized.lookup import HistoryGone, Query
from headrace.views.materialized.records import Incoming
from headrace.views.materialized.store import KeyedRow, Snapshot, Store, StoreState
from tests.views.conftest import HISTORY, StoreFactory

VIEW = ViewDescription("view", "topic", ("id",))


def put(store: Store, state: StoreState, *rows: str, history: bool = True) -> StoreState:
    """Apply rows written as "key=number", or "key" for a row that is gone."""
    offset = state.offsets.get(0, 0)
    incoming = []
    for number, row in enumerate(rows):
        key, _, value = row.partition("=")
        body = orjson.dumps({"id": key, "n": int(value)}) if value else None
        incoming.append(Incoming(key, body, 0, offset + number))
    ends = {0: offset + len(rows)}
    return store.apply(incoming, ends, state=state, history=history).state


def rows_of(store: Store) -> dict[str, int]:
    found = store.read(lambda snapshot: snapshot.select(None))
    return {each.key: orjson.loads(each.row)["n"] for each in found}


def test_rows_changes_and_offsets_are_there_when_it_is_opened_again(new_store: StoreFactory):
    store = new_store()
    state = put(store, store.open(VIEW), "a=1", "b=2", "a=3", "c")
    assert state.offsets == {0: 4}
    assert state.sequence == 3, "a row that was not there is not deleted"
    store.close()
    again = new_store()
    assert again.open(VIEW) == state
    assert rows_of(again) == {"a": 3, "b": 2}
    told = again.read(lambda snapshot: snapshot.changes(1, 3))
    assert [(each.key, each.before, each.offset) for each in told] == [
        ("b", None, 1),
        ("a", b'{"id":"a","n":1}', 2),
    ]


def test_what_changes_nothing_is_no_change(new_store: StoreFactory):
    store = new_store()
    state = put(store, store.open(VIEW), "a=1")
    after = put(store, state, "a=1")
    assert (after.sequence, after.offsets) == (1, {0: 2})


def test_a_view_that_is_described_differently_begins_anew(new_store: StoreFactory):
    store = new_store()
    state = put(store, store.open(VIEW), "a=1")
    store.close()
    again = new_store()
    begun = again.open(ViewDescription("view", "another", ("id",)))
    assert begun.handle != state.handle
    assert (begun.sequence, rows_of(again)) == (0, {})


def test_history_is_kept_for_so_many_changes(new_store: StoreFactory):
    store = new_store()
    state = store.open(VIEW)
    for number in range(3 * HISTORY):
        state = put(store, state, f"a={number}")
    assert 0 < state.sequence - state.oldest <= HISTORY + HISTORY // 8 + 1
    told = store.read(lambda snapshot: snapshot.changes(state.oldest, state.sequence))
    assert len(told) == state.sequence - state.oldest
    with pytest.raises(HistoryGone):
        store.read(lambda snapshot: lookup.past(snapshot, state.oldest - 1))


def test_a_backlog_leaves_no_history(new_store: StoreFactory):
    store = new_store()
    state = put(store, store.open(VIEW), "a=1", "b=2")
    state = put(store, state, "a=5", "b", history=False)
    assert state.oldest == state.sequence == 4
    assert rows_of(store) == {"a": 5}
    state = put(store, state, "a=6")
    assert store.read(lambda snapshot: lookup.past(snapshot, 4)) == {"a": b'{"id":"a","n":5}'}


def test_boundaries_are_where_batches_end(new_store: StoreFactory):
    store = new_store()
    state = put(store, store.open(VIEW), "a=1", "b=1")
    state = put(store, state, "c=1")
    put(store, state, "d=1", "e=1", "f=1")
    found = [(0, 1), (0, 2), (0, 3), (0, 100), (3, 1), (6, 5)]
    ends = store.read(lambda snapshot: [snapshot.boundary(*each) for each in found])
    assert ends == [2, 2, 3, 6, 6, 6]


def test_a_view_is_read_as_it_was(new_store: StoreFactory):
    store = new_store()
    state = put(store, store.open(VIEW), "a=1", "b=2", "c=3")
    put(store, state, "a", "b=9", "d=4")
    query = Query(parse_filter("n <= 3"), parse_order("n desc"), limit=2)
    found = store.read(lambda snapshot: lookup.select(snapshot, query, lookup.past(snapshot, 3)))
    assert [each.key for each in found] == ["c", "b"]
    by_offset = store.read(
        lambda snapshot: lookup.select(snapshot, query, lookup.past_offsets(snapshot, {0: 3}))
    )
    assert found == by_offset
    counted = store.read(
        lambda snapshot: lookup.count(snapshot, query.where, lookup.past(snapshot, 3))
    )
    assert counted == 3
    pages: list[str] = []
    after: str | None = None

    def look(snapshot: Snapshot) -> tuple[list[KeyedRow], str | None]:
        before = lookup.past(snapshot, 3)
        return lookup.page(snapshot, None, before, after_key=after, limit=2)

    while True:
        rows, after = store.read(look)
        pages += [each.key for each in rows]
        if after is None:
            break
    assert pages == ["a", "b", "c"]


def test_a_view_is_read_as_it_was_at_any_offset(
    new_store: StoreFactory, monkeypatch: pytest.MonkeyPatch
):
    """Also where most changes are of one partition, and before another one was heard of."""
    monkeypatch.setattr(lookup, "_PIECE", 3)
    store = new_store()
    state = store.open(VIEW)
    expected: dict[tuple[int, int], dict[str, int]] = {(0, 0): {}}
    now: dict[str, int] = {}
    for number in range(HISTORY):
        partition, key = int(number % 10 == 9), f"k{number % 3}"
        offset = state.offsets.get(partition, 0)
        row = orjson.dumps({"id": key, "n": number})
        incoming = [Incoming(key, row, partition, offset)]
        state = store.apply(incoming, {partition: offset + 1}, state=state).state
        now = {**now, key: number}
        expected[state.offsets.get(0, 0), state.offsets.get(1, 0)] = now

    def at(offsets: dict[int, int]) -> dict[str, int]:
        found = store.read(
            lambda snapshot: lookup.select(
                snapshot, Query(), lookup.past_offsets(snapshot, offsets)
            )
        )
        return {each.key: orjson.loads(each.row)["n"] for each in found}

    for (first, second), rows in expected.items():
        assert at({0: first, 1: second}) == rows, (first, second)
        if not second:
            assert at({0: first} if first else {}) == rows, "not given, not applied"


def test_an_offset_whose_changes_are_forgotten_cannot_be_read(new_store: StoreFactory):
    store = new_store()
    state = store.open(VIEW)
    for number in range(3 * HISTORY):
        state = put(store, state, f"a={number}")
    kept = store.read(lambda snapshot: snapshot.changes(state.oldest, state.sequence))
    known = {0: kept[0].offset + 1}
    assert store.read(lambda snapshot: lookup.past_offsets(snapshot, known)) != {}
    too_old: list[dict[int, int]] = [{0: kept[0].offset}, {0: 3}, {}]
    for gone in too_old:
        with pytest.raises(HistoryGone):
            store.read(partial(lookup.past_offsets, offsets=gone))


def test_filters_and_orders_hold_in_every_store(new_store: StoreFactory):
    store = new_store()
    put(store, store.open(VIEW), *(f"k{number}={number % 5}" for number in range(10)))

    def keys(where: str, order: str = "", limit: int | None = None) -> list[str]:
        by = parse_order(order) if order else ()
        found = store.read(lambda it: it.select(parse_filter(where), by, limit=limit))
        return [each.key for each in found]

    assert keys("n = 3") == ["k3", "k8"]
    assert keys("n between 3 and 4 and not id starts with 'k9'", "n desc, id") == ["k4", "k3", "k8"]
    assert keys("id contains '1' or n in (0)", "", 2) == ["k0", "k1"]
    assert keys("missing is null", "n", 1) == ["k0"]
    assert store.read(lambda it: it.count(parse_filter("n > 2"))) == 4
    assert [each.key for each in store.read(lambda it: it.select(None, after_key="k7"))] == [
        "k8",
        "k9",
    ]


def test_a_zombie_cannot_write(new_store: StoreFactory):
    store = new_store()
    state = put(store, store.open(VIEW), "a=1")
    if type(store).__name__ == "SqliteStore":
        with pytest.raises(StoreUnavailable, match="Another process keeps"):
            new_store().open(VIEW)
        return
    put(store, state, "a=2")
    with pytest.raises(StoreUnavailable, match="somebody else has written it"):
        put(store, state, "a=3")
    assert rows_of(store) == {"a": 2}


def test_what_is_dropped_is_gone(new_store: StoreFactory):
    store = new_store()
    state = put(store, store.open(VIEW), "a=1")
    store.drop()
    again = new_store()
    assert again.open(VIEW).handle != state.handle
    assert rows_of(again) == {}
