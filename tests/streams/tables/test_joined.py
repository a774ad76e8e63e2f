"""A join of tables equals the SQL join of what they are, after every batch."""

from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.errors import InvalidFlow
from headrace.streams.joins.columns import naming
from headrace.streams.state.table import StateTable
from headrace.streams.tables.finding import found
from headrace.streams.tables.joined import TableJoin
from headrace.streams.tables.keys import HOW, joined_key
from headrace.streams.tables.sides import TableSide
from tests.streams.sql import query
from tests.streams.tables.buckets import Reader, Row, in_order
from tests.streams.tables.chains import JoinChain, Source

INT, TEXT = pa.int64(), pa.string()


@dataclass(frozen=True)
class Case:
    """Two tables to be joined."""

    left: TableSide
    right: TableSide


def side(columns: dict[str, Any], key: str, on: str, *, changelog: bool | None = None) -> TableSide:
    keys, join = tuple(key.split()), tuple(on.split())
    moves = not set(join) <= set(keys)
    return TableSide(pa.schema(columns), keys, join, moves if changelog is None else changelog)


CASES = {
    "equal keys": Case(
        side({"id": INT, "v": TEXT}, "id", "id"),
        side({"id": INT, "v": TEXT}, "id", "id"),
    ),
    "equal keys of other names, as changes": Case(
        side({"id": INT, "v": TEXT}, "id", "id", changelog=True),
        side({"other": INT, "w": TEXT}, "other", "other"),
    ),
    "equal keys of two columns": Case(
        side({"a": INT, "b": TEXT, "v": TEXT}, "a b", "b a"),
        side({"b": TEXT, "a": INT, "w": TEXT}, "a b", "b a"),
    ),
    "a foreign key": Case(
        side({"id": INT, "user": INT, "v": TEXT}, "id", "user"),
        side({"user": INT, "city": TEXT}, "user", "user"),
    ),
    "a foreign key of another name": Case(
        side({"id": INT, "author": INT, "v": TEXT}, "id", "author"),
        side({"user": INT, "v": TEXT}, "user", "user"),
    ),
    "a foreign key from the right": Case(
        side({"user": INT, "city": TEXT}, "user", "user"),
        side({"id": INT, "user": INT, "v": TEXT}, "id", "user"),
    ),
    "a part of the key": Case(
        side({"id": INT, "sender": INT, "v": TEXT}, "id", "sender"),
        side({"reader": INT, "followed": INT}, "reader followed", "followed"),
    ),
    "many with many": Case(
        side({"id": INT, "tag": INT, "v": TEXT}, "id", "tag"),
        side({"no": INT, "tag": INT, "w": TEXT}, "no", "tag"),
    ),
}


def changes_of(table: TableSide) -> st.SearchStrategy[Any]:
    columns: dict[str, st.SearchStrategy[Any]] = {}
    for each in table.schema:
        numbers = st.integers(1, 4)
        values = st.sampled_from(["x", "y", None])
        if each.name in table.key:
            columns[each.name] = numbers if each.type == INT else st.sampled_from(["x", "y"])
        else:
            columns[each.name] = st.one_of(numbers, st.none()) if each.type == INT else values
    deleted = st.sampled_from([False, False, False, True])
    return st.lists(st.fixed_dictionaries({**columns, "_deleted": deleted}), max_size=6)


def sql_join(case: Case, how: str, left: Source, right: Source) -> Any:
    names = naming(
        left.schema.names, right.schema.names, dict(zip(case.left.on, case.right.on, strict=True))
    )
    ours = [
        f"coalesce(l.{each}, r.{each}) as {each}" if each in names.shared else f"l.{each} as {each}"
        for each in names.left
    ]
    theirs = [f"r.{each} as {given}" for each, given in names.right.items()]
    equal = " and ".join(
        f"l.{each} = r.{other}" for each, other in zip(case.left.on, case.right.on, strict=True)
    )
    sql = f"select {', '.join(ours + theirs)} from l {how} join r on {equal}"
    return query(
        sql,
        {
            "l": (left.schema, list(left.rows.values())),
            "r": (right.schema, list(right.rows.values())),
        },
    )


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", CASES)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_the_join_equals_the_sql_join_after_every_batch(name: str, how: str, data: Any):
    case = CASES[name]
    chain = JoinChain(case.left, case.right, how)
    reader = Reader(chain.operator.key)
    left, right = (Source(each.schema, each.key) for each in (case.left, case.right))
    for _ in range(data.draw(st.integers(1, 5), "batches")):
        if data.draw(st.booleans(), "restart"):
            chain.restart()
        upserts = {
            "left": data.draw(changes_of(case.left), "left"),
            "right": data.draw(changes_of(case.right), "right"),
        }
        reader.apply(chain.batch(upserts))
        left.write(upserts["left"])
        right.write(upserts["right"])
        assert reader.rows == in_order(sql_join(case, how, left, right))


@pytest.mark.parametrize("name", ["a foreign key", "many with many"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_batches_do_not_matter(name: str, data: Any):
    case = CASES[name]
    batches = [
        {"left": data.draw(changes_of(case.left)), "right": data.draw(changes_of(case.right))}
        for _ in range(3)
    ]
    in_pieces, at_once = (JoinChain(case.left, case.right, "full") for _ in range(2))
    pieces, whole = (Reader(in_pieces.operator.key) for _ in range(2))
    for each in batches:
        pieces.apply(in_pieces.batch({"left": each["left"], "right": []}))
        pieces.apply(in_pieces.batch({"left": [], "right": each["right"]}))
    together = {name: [row for each in batches for row in each[name]] for name in batches[0]}
    whole.apply(at_once.batch(together))
    assert pieces.rows == whole.rows


def test_the_same_input_gives_the_same_output():
    case = CASES["many with many"]
    rows: dict[str, list[Row]] = {
        "left": [{"id": each, "tag": each % 3, "v": "x"} for each in range(20)],
        "right": [{"no": each, "tag": each % 3, "w": "y"} for each in range(20)],
    }
    first, second = (JoinChain(case.left, case.right, "full").batch(rows) for _ in range(2))
    assert all(one.equals(other) for one, other in zip(first, second, strict=True))


def orders_and_users(how: str = "left", buckets: int = 3) -> JoinChain:
    case = CASES["a foreign key"]
    return JoinChain(case.left, case.right, how, buckets)


def told(frames: list[pl.DataFrame]) -> list[tuple[Any, ...]]:
    return sorted(
        (row["_change"], row["id"], row["user"], row["city"])
        for frame in frames
        for row in frame.to_dicts()
    )


def test_a_row_whose_foreign_key_moves_to_another_bucket_is_updated():
    for user in range(2, 8):
        chain = orders_and_users()
        users = [{"user": each, "city": f"city {each}"} for each in (1, user)]
        chain.batch({"left": [{"id": 1, "user": 1}], "right": users})
        assert told(chain.batch({"left": [{"id": 1, "user": user}], "right": []})) == [
            ("update_after", 1, user, f"city {user}"),
            ("update_before", 1, 1, "city 1"),
        ]


def test_a_row_whose_primary_key_moves_is_deleted_and_inserted():
    chain = orders_and_users()
    chain.batch({"left": [{"id": 1, "user": 1}], "right": [{"user": 1, "city": "Rome"}]})
    moved = [{"id": 1, "_deleted": True}, {"id": 9, "user": 1}]
    assert told(chain.batch({"left": moved, "right": []})) == [
        ("delete", 1, 1, "Rome"),
        ("insert", 9, 1, "Rome"),
    ]


def test_a_partner_that_comes_late_updates_the_row_that_stood_alone():
    chain = orders_and_users()
    assert told(chain.batch({"left": [{"id": 1, "user": 1}], "right": []})) == [
        ("insert", 1, 1, None)
    ]
    assert told(chain.batch({"left": [], "right": [{"user": 1, "city": "Rome"}]})) == [
        ("update_after", 1, 1, "Rome"),
        ("update_before", 1, 1, None),
    ]
    assert told(chain.batch({"left": [], "right": [{"user": 1, "_deleted": True}]})) == [
        ("update_after", 1, 1, None),
        ("update_before", 1, 1, "Rome"),
    ]


def test_an_upsert_of_what_is_there_tells_nothing():
    chain = orders_and_users()
    rows: dict[str, list[Row]] = {
        "left": [{"id": 1, "user": 1}],
        "right": [{"user": 1, "city": "Rome"}],
    }
    chain.batch(rows)
    assert chain.batch(rows) == []


@pytest.mark.parametrize("how", HOW)
def test_a_change_reads_the_rows_that_it_affects_and_no_others(
    how: str, monkeypatch: pytest.MonkeyPatch
):
    chain = orders_and_users(how, buckets=1)
    orders = [{"id": each, "user": 1 + each % 2} for each in range(1000)]
    users = [{"user": each, "city": "Rome"} for each in (1, 2)]
    chain.batch({"left": orders, "right": users})
    read = 0
    lookup = StateTable.lookup

    def counted(rows: pl.DataFrame) -> pl.DataFrame:
        nonlocal read
        read += rows.height
        return rows

    def changes(left: list[Any], right: list[Any]) -> tuple[int, int]:
        nonlocal read
        read = 0
        frames = chain.run.batch(
            {
                "left": chain.logs["left"].batch(left),
                "right": [chain.run.upserts(right, "right")],
            }
        )
        return read, sum(frame.height for frame in frames)

    monkeypatch.setattr(
        StateTable, "lookup", lambda *args, **named: counted(lookup(*args, **named))
    )
    monkeypatch.setattr("headrace.streams.tables.sides.found", lambda *args: counted(found(*args)))
    # The log reads the order, the join its user and, where users may stand alone, their count.
    seen, said = changes([{"id": 7, "user": 2, "v": "new"}], [])
    assert (seen <= 3, said) == (True, 2)
    # The user, and the five hundred orders of it.
    seen, said = changes([], [{"user": 1, "city": "Oslo"}])
    assert (seen <= 502, said) == (True, 1000)


def test_a_table_that_is_joined_on_what_can_change_has_to_tell_what_it_was():
    loose = TableSide(pa.schema({"id": INT, "user": INT}), ("id",), ("user",))
    with pytest.raises(InvalidFlow, match="user, which is not of its key"):
        TableJoin("join", loose, CASES["a foreign key"].right)


def test_columns_of_different_types_are_not_joined():
    text = TableSide(pa.schema({"user": TEXT}), ("user",), ("user",))
    with pytest.raises(InvalidFlow, match="cast one of them"):
        TableJoin("join", CASES["a foreign key"].left, text)


def test_a_way_to_join_that_there_is_not_is_refused():
    case = CASES["equal keys"]
    with pytest.raises(InvalidFlow, match="did you mean inner"):
        TableJoin("join", case.left, case.right, "iner")


@pytest.mark.parametrize(
    ("name", "how", "columns", "scattered"),
    [
        ("equal keys", "full", ("id",), False),
        ("equal keys of other names, as changes", "inner", ("id",), False),
        ("equal keys of other names, as changes", "right", ("other",), False),
        ("equal keys of other names, as changes", "full", ("id", "other"), False),
        ("a foreign key", "left", ("id",), True),
        ("a foreign key", "full", ("id", "user"), False),
        ("a foreign key of another name", "right", ("id", "user"), False),
        ("a foreign key of another name", "full", ("id", "user"), True),
        ("a foreign key from the right", "inner", ("id",), True),
        ("a foreign key from the right", "left", ("user", "id"), False),
        ("a part of the key", "inner", ("id", "reader", "followed"), False),
        ("many with many", "inner", ("id", "no"), True),
    ],
)
def test_the_key_of_the_result(name: str, how: str, columns: tuple[str, ...], scattered: bool):
    left, right = CASES[name].left, CASES[name].right
    names = naming(left.schema.names, right.schema.names, dict(zip(left.on, right.on, strict=True)))
    key = joined_key(left.key, left.on, right.key, right.on, how, names)
    assert (key.columns, key.scattered) == (columns, scattered)
