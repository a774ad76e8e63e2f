"""The harness' own sink keeps the contract that it stands in for."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.clock import SystemClock
from headrace.testing.harness.collecting import CollectingSink, parts
from headrace.testing.sink_contract import SinkContract


class Directory:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.sink = CollectingSink(path, SystemClock())

    def rows(self, numbers: Sequence[int]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})

    def seen(self) -> list[int]:
        tables = [pa.ipc.open_file(part.path).read_all() for part in parts(self._path)]
        return [number for table in tables for number in table.column("number").to_pylist()]


class TestCollectingSink(SinkContract):
    @pytest.fixture
    def target(self, tmp_path: Path) -> Directory:
        return Directory(tmp_path)
