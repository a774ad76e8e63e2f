"""What is loaded before a fork has to survive it."""

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

PROGRAM = """
import sys
from headrace.streams.preloading import _NEEDED, preload
preload(*_NEEDED)
print(*({"numba", "pandas", "polars", "pyarrow"} & set(sys.modules)))
"""


def test_everything_but_polars_is_there_before_a_fork() -> None:
    """Polars has threads as soon as it is imported, and says itself that forks may then hang."""
    said = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True)
    assert set(said.split()) == {"numba", "pandas", "pyarrow"}
