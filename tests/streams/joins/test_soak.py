"""The soak of joins on Spark, small: it ends flat, and would say so if it did not."""

from typing import TYPE_CHECKING

import pytest

from benchmarks.soak import SOAKS, Sample, flat, soaked
from headrace.streams.session import stateful_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SOAKS)
def test_joins_end_with_as_much_state_as_they_had(spark: "SparkSession", name: str):
    samples = soaked(stateful_session(spark), SOAKS[name], 12, 2_000)
    assert len(samples) >= 12
    # So short a run tells nothing of memory.
    assert flat([Sample(each.rows, each.bytes, 0) for each in samples])
    assert all(each.rows and each.memory for each in samples[2:])


def test_what_grows_is_not_flat():
    growing = [Sample(number, 1, 1) for number in range(30)]
    assert not flat(growing)
    assert flat([Sample(9, 9, 9)] * 30)
