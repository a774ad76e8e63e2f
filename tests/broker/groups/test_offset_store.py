"""The journal behind the offsets: what is told again after a restart, a crash, a compaction."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.groups import offsets as offsets_module
from headrace.broker.groups.entries import (
    Committed,
    Entry,
    GroupDeleted,
    GroupSettled,
    OffsetsCommitted,
    OffsetsRemoved,
    TopicPartition,
    UnreadableEntry,
    decode,
    encode,
)
from headrace.broker.groups.offsets import OffsetStore
from headrace.log import Journal

ORDERS = TopicPartition("orders", 0)
CLICKS = TopicPartition("clicks", 3)


def at(offset: int) -> Committed:
    return Committed(offset, 5, "note", 1_700_000_000_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "groups.journal"


def reopened(path: Path) -> OffsetStore:
    """What a new process finds; the old one has not closed its journal."""
    return OffsetStore.open(Journal.open(path))


def contents(store: OffsetStore) -> dict[str, object]:
    return {
        group: (dict(store.fetch(group)), store.history(group)) for group in sorted(store.groups())
    }


def test_everything_committed_is_found_again(path: Path):
    store = reopened(path)
    store.commit("billing", {ORDERS: at(1), CLICKS: at(2)})
    store.commit("billing", {ORDERS: Committed(3, -1, "", 0, 99)})
    store.commit("audit", {ORDERS: at(0)})
    store.settle(GroupSettled("billing", "consumer", 3, None))
    assert contents(reopened(path)) == contents(store)
    assert store.fetch("billing")[ORDERS] == Committed(3, -1, "", 0, 99)


def test_everything_removed_stays_removed(path: Path):
    store = reopened(path)
    store.commit("billing", {ORDERS: at(1), CLICKS: at(2)})
    store.commit("audit", {ORDERS: at(1)})
    store.commit("old", {ORDERS: at(1)})
    store.settle(GroupSettled("old", "consumer", 3, 17))
    store.remove("billing", [ORDERS])
    store.delete_group("old")
    store.forget_topic("orders")
    again = reopened(path)
    assert contents(again) == contents(store) == {"billing": ({CLICKS: at(2)}, None)}


def test_removing_what_is_not_there_writes_nothing(path: Path):
    store = reopened(path)
    store.remove("billing", [ORDERS])
    store.delete_group("billing")
    store.forget_topic("orders")
    store.commit("billing", {})
    assert store.journal.entry_count == 0


def test_a_torn_commit_is_forgotten_and_the_ones_before_it_are_kept(path: Path):
    store = reopened(path)
    store.commit("billing", {ORDERS: at(1)})
    whole = path.stat().st_size
    store.commit("billing", {ORDERS: at(2)})
    for size in range(whole, path.stat().st_size):
        torn = path.with_name(f"torn-{size}")
        torn.write_bytes(path.read_bytes()[:size])
        assert reopened(torn).fetch("billing") == {ORDERS: at(1)}


def test_a_commit_of_many_partitions_is_kept_whole_or_not_at_all(path: Path):
    store = reopened(path)
    store.commit("billing", {TopicPartition("orders", index): at(index) for index in range(50)})
    torn = path.with_name("torn")
    torn.write_bytes(path.read_bytes()[:-1])
    assert len(reopened(path).fetch("billing")) == 50
    assert reopened(torn).groups() == set()


def test_a_journal_that_is_mostly_history_is_rewritten(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offsets_module, "COMPACTION_FLOOR", 1_000)
    store = reopened(path)
    store.settle(GroupSettled("billing", "consumer", 1, None))
    store.commit("audit", {CLICKS: at(9)})
    sizes = []
    for offset in range(500):
        store.commit("billing", {ORDERS: at(offset)})
        store.compact_if_due()
        sizes.append(store.journal.size)
    assert max(sizes) < 4_000
    assert contents(reopened(path)) == contents(store)
    assert store.fetch("billing") == {ORDERS: at(499)}


def test_a_journal_without_history_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offsets_module, "COMPACTION_FLOOR", 1_000)
    store = reopened(path)
    for number in range(100):
        store.commit(f"group-{number}", {ORDERS: at(1)})
    rewritten = reopened(path)
    assert not rewritten.compact_if_due()


def test_a_small_journal_is_left_alone(path: Path):
    store = reopened(path)
    for offset in range(100):
        store.commit("billing", {ORDERS: at(offset)})
    assert not store.compact_if_due()


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b'["unheard-of",1]', b'["committed","g",[[1]]]', b"[", b"\xff"]
)
def test_an_entry_of_another_version_is_refused_with_advice(payload: bytes):
    with pytest.raises(UnreadableEntry, match="use the Headrace version that wrote it"):
        decode(payload)


names = st.text(max_size=20).filter(lambda text: text.isprintable())
int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
places = st.builds(TopicPartition, names, int32)
commits = st.builds(Committed, int64, int32, names, int64, st.none() | int64)
entries: st.SearchStrategy[Entry] = st.one_of(
    st.builds(OffsetsCommitted, names, st.lists(st.tuples(places, commits), max_size=4).map(tuple)),
    st.builds(OffsetsRemoved, names, st.lists(places, max_size=4).map(tuple)),
    st.builds(GroupSettled, names, names, int32, st.none() | int64),
    st.builds(GroupDeleted, names),
)


@given(entries)
@settings(deadline=None)
def test_every_entry_can_be_read_back(entry: Entry):
    assert decode(encode(entry)) == entry
