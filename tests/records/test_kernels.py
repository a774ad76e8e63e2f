import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from headrace.records.kernels.compiled import Int64s, compiled


def test_kernels_work_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch):
    njit: Any = numba.njit

    def njit_without_a_place(*, cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", njit_without_a_place)

    @compiled
    def total(numbers: Int64s) -> int:
        result = 0
        for number in numbers:
            result += number
        return result

    assert total(np.arange(5)) == 10


def test_kernels_are_kept_for_the_next_process(tmp_path: Path):
    code = """
from headrace.records.kernels.batches import count_batches
import numpy as np
count_batches(np.zeros(0, np.uint8))
print(sum(count_batches.stats.cache_hits.values()))
"""
    command = [sys.executable, "-c", code]
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""}
    hits = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert hits == ["0\n", "1\n"]


def test_importing_the_package_loads_neither_numpy_nor_numba_nor_arrow():
    code = "import sys, headrace.records; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "numba", "pyarrow"} & set(loaded)


@pytest.mark.parametrize("codec", ["NONE", "GZIP"])
def test_searching_a_batch_needs_arrow_only_for_codecs_that_come_from_it(codec: str):
    code = f"""
import sys
from headrace.records import Codec, build_batch, first_at_or_after
assert first_at_or_after(build_batch([(b"k", b"v")], timestamp=5, codec=Codec.{codec}), 5)
print(*sys.modules)
"""
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "numba", "pyarrow"} & set(loaded)
