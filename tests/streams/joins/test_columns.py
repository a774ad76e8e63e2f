"""The names of a join's columns."""

import pyarrow as pa
import pytest

from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.joins.columns import naming, visible


def test_the_left_columns_come_first_under_their_own_names():
    found = naming(["session", "query"], ["session", "url"], {"session": "session"})
    assert found.left == ("session", "query")
    assert found.right == {"url": "url"}
    assert found.columns == ("session", "query", "url")


def test_a_join_column_of_one_name_is_one_column():
    found = naming(["a", "b", "x"], ["a", "c", "y"], {"a": "a", "b": "c"})
    assert found.shared == ("a",)
    assert found.columns == ("a", "b", "x", "c", "y")


def test_other_columns_that_both_sides_have_get_the_suffix():
    found = naming(["k", "at"], ["k", "at"], {"k": "k"}, "_of_the_click")
    assert found.right == {"at": "at_of_the_click"}


def test_a_right_join_column_named_like_another_left_column_gets_the_suffix():
    found = naming(["id", "parent"], ["id", "parent"], {"parent": "id"})
    assert found.columns == ("id", "parent", "id_right", "parent_right")


@pytest.mark.parametrize(
    ("left", "right"),
    [(["k", "at", "at_right"], ["k", "at"]), (["k", "at"], ["k", "at", "at_right"])],
)
def test_a_suffixed_name_that_is_taken_is_refused(left: list[str], right: list[str]):
    with pytest.raises(InvalidFlow, match=r"two columns at_right.*suffix than '_right'"):
        naming(left, right, {"k": "k"})


def test_a_join_column_that_is_not_there_is_refused():
    with pytest.raises(UnknownColumn, match="left side has no column sesion; did you mean session"):
        naming(["session"], ["session"], {"sesion": "session"})
    with pytest.raises(UnknownColumn, match="right side has no column sesion; did you mean"):
        naming(["session"], ["session"], {"session": "sesion"})


def test_a_join_on_nothing_is_refused():
    with pytest.raises(InvalidFlow, match="needs columns that are equal"):
        naming(["a"], ["a"], {})


def test_fields_have_the_names_of_the_result_and_may_be_null():
    left = pa.schema([pa.field("k", pa.int64(), nullable=False), ("at", pa.int64())])
    right = pa.schema([("k", pa.int64()), pa.field("at", pa.string(), nullable=False)])
    fields = naming(left.names, right.names, {"k": "k"}).fields(left, right)
    assert fields == [
        pa.field("k", pa.int64()),
        pa.field("at", pa.int64()),
        pa.field("at_right", pa.string()),
    ]


def test_columns_that_carry_time_are_not_seen():
    assert visible(["k", "_control", "_window_time", "_change", "v"]) == ["k", "_change", "v"]
