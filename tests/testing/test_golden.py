"""Golden files: what they say, what is refused, and what an update changes."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.streams import Flow
from headrace.testing import GoldenCase, check_golden, golden_cases
from headrace.testing.golden import GoldenFileError, GoldenMismatch
from headrace.testing.golden.cases import read_cases
from headrace.testing.golden.cells import read_cell, write_cell
from headrace.testing.golden.tables import Row, columns_of, read_table, write_table
from tests.testing.shop import counted_orders, large_orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIRECTORY = Path(__file__).parent / "golden"

WRONG = """\
headrace golden 1

About orders.

== one
# The price decides.
> orders
  customer | price
  ada      | 250.0
  bob      | 12.5
--- step

< large-orders
  customer | price
  bob      | 12.5

== two
> orders
  customer
  nobody

--- step
"""

RIGHT = WRONG.replace("  bob      | 12.5\n\n== two", "  ada      | 250.0\n\n== two")


UNORDERED = """\
headrace golden 1
== one
> orders
  price
  1
  2
--- step
< prices (any order)
  price
  2
  1
< counts
  customer | count
  null     | 2
"""


@pytest.mark.parametrize("case", golden_cases(DIRECTORY), ids=str)
def test_large_orders(
    case: GoldenCase, check_golden: Callable[[GoldenCase, Callable[..., Flow]], None]
):
    check_golden(case, large_orders)


def test_a_mismatch_is_shown_as_what_would_change(tmp_path: Path, spark: "SparkSession"):
    path = written(tmp_path, WRONG)
    with pytest.raises(GoldenMismatch) as raised:
        check_golden(path, large_orders, spark=spark)
    shown = str(raised.value)
    assert shown.startswith(f"{path}:5: one\n")
    assert "\n-  bob      | 12.5\n+  ada      | 250.0\n" in shown
    assert shown.endswith("pytest --update-golden")
    assert path.read_text() == WRONG


def test_an_update_changes_the_expected_rows_and_nothing_else(
    tmp_path: Path, spark: "SparkSession"
):
    path = written(tmp_path, WRONG)
    check_golden(path, large_orders, spark=spark, update=True)
    assert path.read_text() == RIGHT
    check_golden(path, large_orders, spark=spark)


def test_rows_that_nobody_expected_are_a_mismatch_and_an_update_adds_them(
    tmp_path: Path, spark: "SparkSession"
):
    path = written(
        tmp_path, "headrace golden 1\n== one\n> orders\n  customer | price\n  ada | 7\n--- step\n"
    )
    with pytest.raises(GoldenMismatch, match=r"\+< prices"):
        check_golden(path, counted_orders, spark=spark)
    check_golden(path, counted_orders, spark=spark, update=True)
    assert path.read_text().endswith(
        "\n< counts\n  customer | count\n  ada      | 1\n\n< prices\n  price\n  7.0\n"
    )


def test_the_order_of_rows_can_be_left_open(tmp_path: Path, spark: "SparkSession"):
    path = written(tmp_path, UNORDERED)
    check_golden(path, counted_orders, spark=spark)
    path.write_text(UNORDERED.replace(" (any order)", ""))
    with pytest.raises(GoldenMismatch):
        check_golden(path, counted_orders, spark=spark)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("== one\n--- step\n", "golden.txt:1: the first line must be `headrace golden 1`"),
        ("headrace golden 1\n", "there is no case"),
        ("headrace golden 1\n== a\n--- stop\n", "golden.txt:3: `--- stop`: there are step, run"),
        ("headrace golden 1\n== a\n--- step\nads\n", "golden.txt:4: `ads` is no part of a case"),
        ("headrace golden 1\n== a\n> b\n  x\n  1 | 2\n", "has 2 cells for 1 columns"),
        ("headrace golden 1\n== a\n== a\n", "there are two cases named a"),
    ],
)
def test_a_file_that_says_nothing_is_refused_with_the_line(tmp_path: Path, text: str, message: str):
    with pytest.raises(GoldenFileError) as raised:
        read_cases(written(tmp_path, text))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("> order\n  price\n  1\n", "golden.txt:3: Flow shop does not read the topic order;"),
        ("> orders\n  price\n  1\n", "1 events of case a are sent and never read"),
        ("> orders\n  @off\n  1\n", "There is no column @off; there are @key"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_line(
    tmp_path: Path, spark: "SparkSession", text: str, message: str
):
    path = written(tmp_path, f"headrace golden 1\n== a\n{text}")
    with pytest.raises(GoldenFileError) as raised:
        check_golden(path, large_orders, spark=spark)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.5,
        "ada",
        "1",
        "",
        " a",
        "a|b",
        "null",
        None,
        True,
        {"a": [1]},
        "line\nbreak",
        "ß",
        '"q"',
    ],
)
def test_cells_say_every_value(value: object):
    assert "|" not in write_cell(value)
    assert read_cell(write_cell(value)) == value


def test_tables_come_back_as_they_were():
    rows: list[Row] = [{"a": 1, "b": "x"}, {"a": None}, {"c": "y | z"}]
    lines = write_table(columns_of(rows, ["b"]), rows)
    assert lines[0] == "  b | a    | c"
    assert read_table(lines) == (["b", "a", "c"], rows)


def written(directory: Path, text: str) -> Path:
    path = directory / "golden.txt"
    path.write_text(text)
    return path
