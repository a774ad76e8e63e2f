"""Any sequence of batches, whatever a worker remembers, equals a dictionary."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from unittest import mock

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.state import Description, merging
from headrace.streams.state.blobs import to_polars
from headrace.streams.state.bucket import Applied, Bucket, Job
from headrace.streams.state.budget import Limits
from headrace.streams.state.cache import Copies, Copy, Found
from headrace.streams.state.errors import InvalidOperator, StateMismatch, StateTooLarge
from headrace.streams.state.storage import MemoryStorage
from tests.streams.state.operators import ROWS, SCRIPT, Scripted, scripted

Command = tuple[str, str | None, int, int | None, str | None]


_GENEROUS = Limits()


@dataclass(frozen=True)
class Told:
    """A watermark that is told by the batch."""

    def observe(self, source: str, events: pl.DataFrame) -> Mapping[str, int]:
        return {}

    def advance(self, memory: str, bounds: Mapping[str, int]) -> tuple[str, int | None]:
        before = int(memory) if memory else None
        now = max((each for each in (before, *bounds.values()) if each is not None), default=None)
        return "" if now is None else str(now), now


@dataclass
class Model:
    """The same as the scripted operator, in dictionaries."""

    rows: dict[tuple[str | None, int], tuple[int | None, str | None]] = field(default_factory=dict)
    names: dict[str | None, int] = field(default_factory=dict)

    def apply(
        self, script: list[Command], watermark: int | None
    ) -> Mapping[str, Sequence[tuple[object, ...]]]:
        touched = {name for _, name, *_ in script}
        looked_up = [(*key, *each) for key, each in self.rows.items() if key[0] in touched]
        for action, name, part, _at, _value in script:
            if action == "delete":
                self.rows.pop((name, part), None)
        for action, name, part, at, value in script:
            if action == "write":
                self.rows[name, part] = (at, value)
        for _, name, _part, at, _value in script:
            if at is not None:
                self.names[name] = at
        names = [(name, last) for name, last in self.names.items() if name in touched]
        due = []
        if watermark is not None:
            late = {k: v for k, v in self.rows.items() if v[0] is not None and v[0] <= watermark}
            due = [(*key, *each) for key, each in late.items()]
            self.rows = {key: each for key, each in self.rows.items() if key not in late}
            self.names = {k: last for k, last in self.names.items() if last > watermark - 10}
        return {"looked_up": looked_up, "due": due, "names": names}


commands = st.tuples(
    st.sampled_from(["write", "write", "delete"]),
    st.sampled_from([None, "", "a", "b", "a long name of more than eight bytes", "ä"]),
    st.integers(0, 5),
    st.one_of(st.none(), st.integers(0, 60)),
    st.one_of(st.none(), st.text(max_size=20)),
)
steps = st.tuples(
    st.lists(commands, max_size=12),
    st.integers(0, 6),
    st.sampled_from(["first", "first", "second", "none", "failed", "failed alike"]),
)


@pytest.mark.timeout(900)
@settings(max_examples=50, deadline=None)
@given(
    st.lists(steps, max_size=25),
    st.sampled_from([64, 1 << 20]),
    st.sampled_from([0, 400, 1 << 20]),
    st.integers(0, 2),
)
def test_a_bucket_equals_a_dictionary(batches, chunk, memory, number):
    with mock.patch.object(merging, "_SMALLEST", 4):
        _compare(batches, Limits(chunk=chunk, memory=memory), number)


def _compare(batches, limits: Limits, number: int) -> None:
    storage, model, watermark = MemoryStorage(), Model(), None
    workers = {"first": Copies(limits.memory, 1 << 20), "second": Copies(limits.memory, 1 << 20)}
    twin = MemoryStorage()
    for script, step, worker in batches:
        watermark = (watermark or 0) + step
        if worker.startswith("failed"):
            # A batch that is lost after the worker's copy has seen it, and comes again.
            lost = [*script, ("write", "a", 1, 99, "lost")] if worker == "failed" else script
            _apply(copy.deepcopy(storage), workers["first"], lost, watermark, number, limits)
        name = "first" if worker.startswith("failed") else worker
        copies = workers.get(name) or Copies(limits.memory, 1 << 20)
        applied = _apply(storage, copies, script, watermark, number, limits)
        expected = model.apply(script, watermark)
        for output, rows in expected.items():
            found = applied.outputs.get(output)
            told = to_polars(found).rows() if found is not None else []
            assert sorted(told, key=repr) == sorted(rows, key=repr), output
        if "due" in applied.outputs:
            assert to_polars(applied.outputs["due"])["at"].is_sorted()
        assert applied.rows == len(model.rows) + len(model.names)
        again = _apply(twin, Copies(1 << 20, 1 << 20), script, watermark, number, limits)
        assert again.outputs == applied.outputs
        assert (twin.record, twin.chunks) == (storage.record, storage.chunks)


def _apply(
    storage: MemoryStorage,
    copies: Copies,
    script: list[Command],
    watermark: int | None,
    number: int = 0,
    limits: Limits = _GENEROUS,
    operator: Scripted | None = None,
) -> Applied:
    rows = list(map(list, zip(*script, strict=True))) or [[] for _ in SCRIPT.names]
    frame = pl.DataFrame(dict(zip(SCRIPT.names, rows, strict=True)), schema=_SCHEMA)
    job = Job("tests", operator or Scripted(), Told(), limits)
    bounds = {"test": watermark} if watermark is not None else {}
    return Bucket(job, number, storage, copies).apply("bucket", {"events": frame}, bounds)


_SCHEMA = to_polars(SCRIPT.empty_table()).schema


def _write(name: str, part: int = 0, at: int | None = 100, value: str = "x") -> Command:
    return ("write", name, part, at, value)


def test_a_copy_is_used_caught_up_or_thrown_away():
    storage = MemoryStorage()
    first, second = Copies(1 << 20, 0), Copies(1 << 20, 0)
    assert _apply(storage, first, [_write("a")], 1).found is Found.NOTHING
    assert _apply(storage, first, [_write("b")], 1).found is Found.CURRENT
    assert _apply(storage, second, [_write("c")], 1).found is Found.NOTHING
    lost = copy.deepcopy(storage)
    assert _apply(storage, first, [_write("d")], 1).found is Found.BEHIND
    assert _apply(lost, first, [_write("e")], 1).found is Found.INVALID


def test_copies_that_nobody_uses_any_more_are_dropped():
    copies = Copies(1 << 20, 0)
    copies.put("of an ended query", Copy())
    for _ in range(100):
        copies.put("in use", copies.take("in use") or Copy())
    assert copies.take("of an ended query") is None
    assert copies.take("in use") is not None


def test_a_current_copy_reads_no_chunk():
    storage, copies = MemoryStorage(), Copies(1 << 20, 0)
    for number in range(3):
        _apply(storage, copies, [_write(str(number))], 1)
    reading = _Counted(storage.record, storage.chunks)
    _apply(reading, copies, [_write("3")], 1)
    assert reading.read == []


def test_a_copy_that_is_behind_reads_only_what_it_lacks():
    storage, copies = MemoryStorage(), Copies(1 << 20, 0)
    _apply(storage, copies, [_write(str(number)) for number in range(100)], 1)
    known = set(storage.chunks)
    _apply(storage, Copies(1 << 20, 0), [_write("new")], 1)
    reading = _Counted(storage.record, storage.chunks)
    assert _apply(reading, copies, [_write("newer")], 1).found is Found.BEHIND
    assert reading.read
    assert known.isdisjoint(reading.read)


class _Counted(MemoryStorage):
    read: list[int]

    def __init__(self, record: bytes | None, chunks: dict[int, bytes]) -> None:
        super().__init__(record, chunks)
        self.read = []

    def read_chunk(self, number: int) -> bytes:
        self.read.append(number)
        return super().read_chunk(number)


def test_what_is_rewritten_follows_the_changes_and_not_the_size():
    storage, copies = MemoryStorage(), Copies(1 << 30, 0)
    _apply(storage, copies, [_write(f"{number}") for number in range(50_000)], None)
    rewritten = [
        _apply(storage, copies, [_write(f"{number}")], None).rewritten for number in range(100)
    ]
    assert sum(rewritten) < 10_000


def test_a_bucket_larger_than_memory_lies_in_files():
    limits = Limits(memory=100_000, chunk=50_000)
    storage, copies = MemoryStorage(), Copies(limits.memory, 1 << 30)
    for start in range(0, 20_000, 2_000):
        script = [_write(f"{number}", value="v" * 50) for number in range(start, start + 2_000)]
        _apply(storage, copies, script, None, limits=limits)
    assert copies.room.used <= limits.memory
    assert copies.room.spilled > 1_000_000
    assert max(map(len, storage.chunks.values())) < 100_000
    found = _apply(storage, copies, [("delete", "7777", 0, None, None)], None, limits=limits)
    assert to_polars(found.outputs["looked_up"]).rows() == [("7777", 0, 100, "v" * 50)]
    copies.take("bucket")
    assert (copies.room.used, copies.room.spilled) == (0, 0)


def test_state_that_outgrows_its_budget_names_flow_operator_and_biggest_keys():
    script = [_write("big", part) for part in range(2_000)] + [_write("small")]
    with pytest.raises(StateTooLarge, match=r"Flow tests, operator scripted.*big \(2,000 rows\)"):
        _apply(MemoryStorage(), Copies(1 << 20, 0), script, None, limits=Limits(bucket=10_000))


def test_rows_expire_by_event_time_and_are_counted():
    storage, copies = MemoryStorage(), Copies(1 << 20, 0)
    assert _apply(storage, copies, [_write("a", at=50)], 1).expired == 0
    assert _apply(storage, copies, [], 59).expired == 0
    assert _apply(storage, copies, [], 60).expired == 1


def test_a_new_column_that_can_be_null_is_null_in_what_was_stored():
    storage = MemoryStorage()
    _apply(storage, Copies(1 << 20, 0), [_write("a")], 1)
    wider = _changed_rows(ROWS.append(_field("note", "string")))
    applied = _apply(storage, Copies(1 << 20, 0), [_write("a")], 1, operator=_Noting(wider))
    assert to_polars(applied.outputs["looked_up"]).rows() == [("a", 0, 100, "x", None)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "its version was 1 and is 2 now"),
        ({"name": "other"}, "it is of an operator named scripted"),
        ({"tables": {"rows": Scripted().description.tables["rows"]}}, "the table names is gone"),
    ],
)
def test_another_operator_cannot_continue(change, said):
    storage = MemoryStorage()
    _apply(storage, Copies(1 << 20, 0), [_write("a")], 1)
    with pytest.raises(StateMismatch, match=said):
        _apply(storage, Copies(1 << 20, 0), [], 1, operator=scripted(**change))


def test_a_column_of_another_type_is_refused():
    storage = MemoryStorage()
    _apply(storage, Copies(1 << 20, 0), [_write("a")], 1)
    changed = _changed_rows(ROWS.set(3, _field("value", "int64")))
    with pytest.raises(StateMismatch, match="column value of table rows was string and is int64"):
        _apply(storage, Copies(1 << 20, 0), [], 1, operator=Scripted(changed))


def test_a_column_may_become_wider_and_another_go_while_a_worker_keeps_its_copy():
    storage, copies = MemoryStorage(), Copies(1 << 20, 0)
    narrow = pa.schema([("name", pa.string()), ("part", pa.int32()), *list(ROWS)[2:]])
    kept = scripted(outputs={}, tables=_changed_rows(narrow).tables)
    _apply(storage, copies, [_write("a")], 1, operator=_Writing(kept.description))
    wider = _Noting(_changed_rows(ROWS.remove(3)))
    applied = _apply(storage, copies, [_write("a")], 1, operator=wider)
    assert applied.found is Found.NOTHING
    assert to_polars(applied.outputs["looked_up"]).rows() == [("a", 0, 100)]
    # What is identified by a wider number is found, whatever it was stored as.
    written = _apply(storage, copies, [_write("a")], 1, operator=_Writing(wider.description))
    assert written.rows == 1
    shorter = Scripted(_changed_rows(narrow.set(1, _field("part", "int16"))))
    with pytest.raises(StateMismatch, match="part of table rows was int64 and is int16"):
        _apply(storage, copies, [], 1, operator=shorter)


def test_a_batch_that_changes_nothing_writes_nothing():
    storage, copies = MemoryStorage(), Copies(1 << 20, 0)
    first = _apply(storage, copies, [_write("a")], 1)
    assert _apply(storage, copies, [], 1).version == first.version


def test_an_output_that_was_not_declared_is_refused():
    @dataclass(frozen=True)
    class Careless(Scripted):
        def update(self, state, events, watermark):
            return {"lok_up": events["events"]}

    with pytest.raises(InvalidOperator, match="its outputs are looked_up, due, names"):
        _apply(MemoryStorage(), Copies(1 << 20, 0), [], 1, operator=Careless())


def test_a_record_of_another_format_is_refused():
    storage = MemoryStorage()
    _apply(storage, Copies(1 << 20, 0), [_write("a")], 1)
    assert storage.record is not None
    storage.record = json.dumps({**json.loads(storage.record), "format": 99}).encode()
    with pytest.raises(StateMismatch, match="has the format 99"):
        _apply(storage, Copies(1 << 20, 0), [], 1)


@dataclass(frozen=True)
class _Writing(Scripted):
    def update(self, state, events, watermark):
        state["rows"].upsert(events["events"])
        return {}


@dataclass(frozen=True)
class _Noting(Scripted):
    def update(self, state, events, watermark):
        return {"looked_up": state["rows"].lookup(events["events"])}


def _changed_rows(schema: pa.Schema) -> Description:
    description = Scripted().description
    tables = {**description.tables, "rows": replace(description.tables["rows"], schema=schema)}
    return replace(description, tables=tables, outputs={"looked_up": schema})


def _field(name: str, kind: str) -> pa.Field:
    return pa.field(name, pa.type_for_alias(kind))
