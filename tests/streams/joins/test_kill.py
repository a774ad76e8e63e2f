"""All kinds of joins in a flow whose process is killed again and again: its output is the same.

Five queries with state take minutes on two cores, so it is run when it is asked for: `--kills 1`.
"""

import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.clusters import Cluster, on_one_cluster
from tests.streams.joins.joined_flow import OUTPUTS, RECORDS_PER_BATCH, joined, records
from tests.streams.killing import Driver
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

_BATCHES_PER_KILL = 3
_FLOW = """from tests.streams.joins.joined_flow import joined

flow = joined({name!r}, {source!r})
"""


@on_one_cluster
def test_joins_of_a_flow_that_is_killed_say_the_same(
    spark: "SparkSession",
    cluster: Cluster,
    pytestconfig: pytest.Config,
    spark_master: str,
    tmp_path: Path,
    fresh_name: str,
):
    kills = pytestconfig.getoption("--kills")
    if not kills:
        pytest.skip("takes minutes; --kills N runs it")
    topics = Topics(cluster.bootstrap)
    count = RECORDS_PER_BATCH * _BATCHES_PER_KILL * (kills + 1)
    for name, rows in records(count).items():
        topics.write(f"{fresh_name}-{name}", *rows)

    calm, killed = f"{fresh_name}-calm", f"{fresh_name}-killed"
    settings = topics.settings(tmp_path, master=spark_master, partitions=2)
    joined(calm, fresh_name, settings).run(once=True)

    file = tmp_path / "killed.py"
    file.write_text(_FLOW.format(name=killed, source=fresh_name))
    command = [sys.executable, "-m", "headrace", "run", str(file), "--once"]
    command += ["--bootstrap", cluster.bootstrap, "--master", spark_master]
    driver = Driver(
        [*command, "--checkpoints", str(tmp_path)],
        tmp_path / "driver.log",
        tmp_path / killed / f"{killed}-timelines" / "spark" / "offsets",
        {"HEADRACE_STREAMS_PARTITIONS": "2"},
    )
    chance = random.Random(kills)
    for _ in range(kills):
        driver.kill(chance, first=2)
    driver.finish()

    for output in OUTPUTS:
        found = by_key(topics.read(f"{killed}-{output}"))
        assert found == by_key(topics.read(f"{calm}-{output}")), output
        assert found, output


def by_key(found: Iterable[tuple[str | None, Any]]) -> dict[str | None, list[Any]]:
    """What was said of every key, in its order; two tasks write in no order to each other."""
    said: dict[str | None, list[Any]] = {}
    for key, value in found:
        said.setdefault(key, []).append(value)
    return said
