"""`headrace run --master spark://...`: a file and a module of its own, on a cluster."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters import Cluster
from tests.conftest import TopicFactory
from tests.streams.cluster.standalone import StandaloneSpark
from tests.streams.topics import Topics

PROGRAM = """
from pyspark.sql.functions import udf

from headrace.streams import Flow
from prices import in_cents


def with_cents(rows):
    @udf("long", useArrow=False)
    def cents(price):
        return in_cents(price)

    return rows.withColumn("cents", cents("price"))


flow = Flow("{name}")
orders = flow.stream("{source}", "customer string, price double")
flow.topic("{target}", orders.pipe(with_cents), key="customer")
"""

MODULE = """
def in_cents(price):
    return round(price * 100)
"""

SETTINGS = """
[streams]
checkpoints = "file://{directory}/checkpoints"

[streams.properties]
"spark.cores.max" = "1"
"spark.submit.pyFiles" = "{directory}/prices.py"
"""


@pytest.mark.timeout(600)
def test_a_file_runs_on_a_cluster_with_a_module_that_is_named_in_the_settings(
    standalone: StandaloneSpark,
    cluster: Cluster,
    new_topic: TopicFactory,
    tmp_path: Path,
    fresh_name: str,
):
    source, target = new_topic(), new_topic()
    topics = Topics(cluster.bootstrap)
    topics.write(source, {"customer": "ada", "price": 12.5})
    program = PROGRAM.format(name=fresh_name, source=source, target=target)
    (tmp_path / "shop.py").write_text(program)
    (tmp_path / "prices.py").write_text(MODULE)
    (tmp_path / "headrace.toml").write_text(SETTINGS.format(directory=tmp_path))
    place = ("--master", standalone.master, "--bootstrap", cluster.bootstrap)
    result = subprocess.run(
        [sys.executable, "-m", "headrace", "run", "shop.py", "--once", *place],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert topics.read(target) == [("ada", {"customer": "ada", "price": 12.5, "cents": 1250})]
    _, started, *others = result.stderr.splitlines()
    assert started.startswith(f"Spark 4.2.0 at {standalone.master}")
    assert not [line for line in others if "WARN" in line or "Exception" in line]
