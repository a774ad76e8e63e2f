"""A program with a flow into Delta tables, run three times; prints what is in them each time.

    python delta_driver.py BOOTSTRAP DIRECTORY

The third run finds a checkpoint that does not know of its last batches, as after a crash between a
commit of Delta's and Spark's own, so that they come again.
"""

import json
import sys
from pathlib import Path
from typing import Any

from headrace.streams import Flow
from headrace.streams.errors import SparkFailed
from tests.streams.topics import Topics

NO_LIBRARY = 3
"""The exit code if Delta's library is not there and cannot be fetched."""

TABLES = ("orders", "clicks")
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Plans that run once are not worth being compiled."""


def shop(topics: Topics, directory: Path) -> Flow:
    """A table and a stream."""
    settings = topics.settings(
        directory / "checkpoints", master="local[2]", partitions=2, properties=INTERPRETED
    )
    flow = Flow("shop", settings=settings)
    orders = flow.table("orders", "id bigint, item string, price double", key="id")
    lake = f"delta:///{directory / 'lake'}"
    flow.sink(orders, to=lake, table="orders")
    flow.sink("clicks", flow.stream("clicks", "page string"), to=lake)
    return flow


def contents(flow: Flow, directory: Path) -> dict[str, Any]:
    """The rows of every table, and how many commits it has."""
    found: dict[str, Any] = {}
    for table in TABLES:
        place = directory / "lake" / table
        rows = flow.spark.read.format("delta").load(str(place)).collect()
        commits = len(list((place / "_delta_log").glob("*.json")))
        found[table] = [sorted(list(row) for row in rows), commits]
    return found


def main(bootstrap: str, directory: Path) -> None:
    """Run it, and print a line of JSON after each run."""
    topics = Topics(bootstrap)
    hat, shoe = {"id": 1, "item": "hat", "price": 5.0}, {"id": 2, "item": "shoe", "price": 7.0}
    topics.write("orders", hat, shoe, {**hat, "price": 6.0}, keys=["1", "2", "1"])
    topics.write("clicks", {"page": "/"}, {"page": "/"})
    flow = shop(topics, directory)
    flow.run(once=True)
    print(json.dumps(contents(flow, directory)), flush=True)
    sock = {"id": 3, "item": "sock", "price": 1.0}
    topics.write("orders", None, {**shoe, "price": 8.0}, sock, keys=["1", "2", "3"])
    topics.write("clicks", {"page": "/cart"})
    shop(topics, directory).run(once=True)
    print(json.dumps(contents(flow, directory)), flush=True)
    for commits in (directory / "checkpoints").glob("**/commits"):
        max((each for each in commits.iterdir() if each.name.isdecimal()), key=_number).unlink()
    report = shop(topics, directory).run(once=True)
    print(json.dumps(contents(flow, directory)), flush=True)
    print(json.dumps([each.written for each in report.queries]), flush=True)


def _number(file: Path) -> int:
    return int(file.name)


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except SparkFailed as reason:
        if "had to be fetched" not in str(reason):
            raise
        print(json.dumps(str(reason)))
        sys.exit(NO_LIBRARY)
