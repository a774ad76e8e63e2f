"""A capture from a real PostgreSQL into real clusters: what is in the tables is in the topics."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from headrace.capture import Capture, Condition
from headrace.settings import KafkaSettings
from tests.capture.conftest import Database
from tests.capture.replaying import eventually, replayed, rows_of, values_of
from tests.clusters import Cluster

Begin = Callable[..., Capture]


@pytest.fixture
def capture(cluster: Cluster, database: Database, fresh_name: str) -> Iterator[Begin]:
    """Starts captures of the test's database, into topics of its own."""
    with ExitStack() as running:

        def begin(*tables: str, **options: Any) -> Capture:
            given: dict[str, Any] = {"heartbeat_ms": 500, "discovery_ms": 300, "to": fresh_name}
            kafka = KafkaSettings(bootstrap=cluster.bootstrap)
            chosen = given | {"tables": tables or ["*"], "kafka": kafka} | options
            described = Capture(database.url, **chosen)
            return running.enter_context(described)

        yield begin


def caught_up(capture: Capture, changes: int, rows: int = 0) -> bool:
    progress = capture.progress
    assert progress.condition is not Condition.FAILED, progress.failure
    return progress.changes >= changes and progress.rows_read >= rows


def test_rows_before_and_after_the_start_are_in_the_topic(
    capture: Begin, cluster: Cluster, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE orders (id int PRIMARY KEY, item text, n int)")
    database.run("INSERT INTO orders SELECT i, 'item ' || i, i FROM generate_series(1, 100) i")
    running = capture("orders")
    eventually(lambda: running.progress.condition is Condition.FOLLOWING)
    database.run("UPDATE orders SET n = n + 1 WHERE id <= 10")
    database.run("DELETE FROM orders WHERE id > 95")
    database.run("UPDATE orders SET id = 1000 WHERE id = 1")
    eventually(lambda: caught_up(running, 16, 100))
    topic = f"{fresh_name}.public.orders"
    assert replayed(cluster.bootstrap, topic) == rows_of(database, "orders")
    events = values_of(cluster.bootstrap, topic)
    assert [each["op"] for each in events if each].count("r") == 100
    assert events.count(None) == 6
