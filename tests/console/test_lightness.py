"""A console reads what others have stored; it needs nothing of what they compute with."""

import subprocess
import sys

import pytest

pytest.importorskip("nicegui")

PROGRAM = """
import sys
import headrace.console.serving, headrace.console.pages
print(*({"duckdb", "numba", "pandas", "polars", "pyspark"} & set(sys.modules)))
"""


def test_a_console_loads_neither_spark_nor_what_kernels_need() -> None:
    assert subprocess.check_output([sys.executable, "-c", PROGRAM], text=True).split() == []
