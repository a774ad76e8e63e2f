"""Conditions on rows: three answers, like SQL's, and clear words about what is not understood."""

import sqlite3
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.capture.changes import Column, ColumnType, Table, TableName, TypeKind
from headrace.capture.errors import InvalidCapture
from headrace.capture.mariadb.conditions import Condition

TABLE = Table(
    TableName("shop", "t"),
    tuple(
        Column(name, ColumnType(kind, kind.value, precision=6))
        for name, kind in (
            ("n", TypeKind.INT32),
            ("price", TypeKind.DECIMAL),
            ("region", TypeKind.TEXT),
            ("day", TypeKind.DATE),
            ("at", TypeKind.TIMESTAMP),
            ("data", TypeKind.BYTES),
        )
    ),
)

numbers = st.integers(-3, 3)
letters = st.sampled_from(["a", "b", "it's", ""])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def simple() -> st.SearchStrategy[str]:
    signs = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        st.tuples(signs, numbers).map(lambda each: f"n {each[0]} {each[1]}"),
        st.tuples(signs, letters).map(lambda each: f'"region" {each[0]} {quoted(each[1])}'),
        st.tuples(st.sampled_from(["", " NOT"]), numbers, numbers).map(
            lambda each: f"n{each[0]} BETWEEN {each[1]} AND {each[2]}"
        ),
        st.tuples(st.sampled_from(["", " not"]), st.lists(letters, min_size=1, max_size=3)).map(
            lambda each: f"region{each[0]} IN ({', '.join(map(quoted, each[1]))})"
        ),
        st.sampled_from(["n IS NULL", "region IS NOT NULL", "`n` is null"]),
    )


conditions = st.recursive(
    simple(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda each: f"{each[0]} AND {each[1]}"),
        st.tuples(inner, inner).map(lambda each: f"({each[0]} OR {each[1]})"),
        inner.map(lambda each: f"NOT ({each})"),
    ),
    max_leaves=6,
)


@given(conditions, st.lists(st.tuples(st.none() | numbers, st.none() | letters), max_size=8))
def test_rows_are_judged_as_sql_judges_them(sql: str, rows: list[tuple[Any, ...]]) -> None:
    judge = Condition(sql).judge_of(TABLE)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (n INT, region TEXT)")
    for number, region in rows:
        database.execute("DELETE FROM t")
        database.execute("INSERT INTO t VALUES (?, ?)", (number, region))
        ((wanted,),) = database.execute(f"SELECT {sql} FROM t")
        found = judge((number, None, region, None, None, None))
        assert found is (None if wanted is None else bool(wanted))
    database.close()


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("price >= 1.50", True),
        ("price = 1.5", True),
        ("day = '1970-01-02'", True),
        ("day < '1970-01-02'", False),
        ("at > '1970-01-01'", True),
        ("at BETWEEN '1970-01-01 00:00:01' AND '1970-01-01 00:00:03'", True),
        ("REGION = 'EU'", False),
        ("n = -7", True),
    ],
)
def test_values_of_all_kinds_are_compared(sql: str, *, kept: bool) -> None:
    row = (-7, Decimal("1.50"), "eu", 1, 2_000_000, b"")
    assert Condition(sql).judge_of(TABLE)(row) is kept


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("lower(region) = 'eu'", "has no column lower"),
        ("region LIKE 'e%'", "at 'LIKE'"),
        ("region = 'e\\n'", "at"),
        ("n = 'x'", "cannot be compared with n int32"),
        ("n = region", "cannot be compared with n int32"),
        ("data = 'x'", "cannot be compared with data bytes"),
        ("day = 'someday'", "is not a value of day date"),
        ("missing = 1", "has no column missing"),
        ("n = 1; DROP TABLE t", "at ';"),
        ("n = 1 region = 'a'", "at 'region'"),
        ("(n = 1", "where ) was expected"),
        ("n =", "at its end"),
        ("", "at its end"),
    ],
)
def test_what_is_not_understood_is_refused(sql: str, said: str) -> None:
    with pytest.raises(InvalidCapture) as refused:
        Condition(sql).judge_of(TABLE)
    assert said in str(refused.value)
    assert "compare columns with literals" in str(refused.value)
