"""A flow with windows and late events that is killed again and again: its output is the same.

One kill by default; `--kills 20` for as many as that.
"""

import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.clusters import HEADRACE, Cluster
from tests.conftest import TopicFactory
from tests.streams.killing import Driver
from tests.streams.time.window_driver import RECORDS_PER_BATCH, settings_of, windows
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

_BATCHES_PER_KILL = 4


def test_windows_of_a_flow_that_is_killed_say_the_same(
    spark: "SparkSession",
    cluster: Cluster,
    new_topic: TopicFactory,
    pytestconfig: pytest.Config,
    spark_master: str,
    tmp_path: Path,
    fresh_name: str,
):
    kills = pytestconfig.getoption("--kills") or 1
    if cluster.name != HEADRACE:
        pytest.skip("one cluster is enough for what the broker has no part in")
    topics, source = Topics(cluster.bootstrap), new_topic(1)
    topics.write(source, *events(RECORDS_PER_BATCH * _BATCHES_PER_KILL * (kills + 1)))

    calm = [f"{fresh_name}-calm-{each}" for each in ("results", "late")]
    settings = settings_of(cluster.bootstrap, tmp_path, spark_master)
    flow = windows(f"{fresh_name}-calm", settings, source, *calm)
    flow.run(once=True)

    name = f"{fresh_name}-killed"
    killed = [f"{name}-{each}" for each in ("results", "late")]
    command = [sys.executable, "-m", "tests.streams.time.window_driver", spark_master]
    command += [cluster.bootstrap, str(tmp_path), name, source, *killed]
    chance = random.Random(kills)
    planned = tmp_path / name / killed[0] / "spark" / "offsets"
    driver = Driver(command, tmp_path / "driver.log", planned)
    for _ in range(kills):
        driver.kill(chance)
    driver.finish()

    for mine, theirs in zip(killed, calm, strict=True):
        found = topics.read(mine)
        assert found == topics.read(theirs)
        assert found


def events(count: int) -> list[dict[str, Any]]:
    """Five a second, mostly a little out of order, some corrections and some much too late."""
    chance = random.Random(count)
    begin = datetime(2026, 1, 1, tzinfo=UTC)

    def delay() -> float:
        return chance.choices([chance.uniform(0, 2), 9, 60], [90, 7, 3])[0]

    return [
        {"n": number, "at": (begin + timedelta(seconds=number / 5 - delay())).isoformat()}
        for number in range(count)
    ]
