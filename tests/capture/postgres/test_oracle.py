"""Random tables and transactions on PostgreSQL, with a capture that is killed again and again."""

import itertools
import random
from typing import Any

import psycopg2
import pytest

from tests.capture.oracle import DAY, DECIMAL, FLOAT, TEXT, WHOLE, Dialect, Oracle, binary
from tests.capture.servers import PostgresServer
from tests.clusters import Cluster, on_one_cluster


def adorn(chance: random.Random, table: str) -> list[str]:
    """Whole rows before their changes in the log, of some tables."""
    return [f"ALTER TABLE {table} REPLICA IDENTITY FULL"] if chance.random() < 0.3 else []


@on_one_cluster
@pytest.mark.timeout(1800)
def test_topics_lead_to_the_tables_whatever_happens(
    cluster: Cluster, fresh_name: str, pytestconfig: pytest.Config
) -> None:
    server = PostgresServer()
    modes = itertools.cycle(("immediate", "fast"))

    def connect() -> Any:
        connection = server.connect()
        connection.autocommit = False
        return connection

    def restart() -> None:
        server.stop(next(modes))
        server.start()

    dialect = Dialect(
        kinds=(WHOLE, TEXT, FLOAT, DECIMAL, DAY, binary("bytea")),
        connect=connect,
        violated=psycopg2.errors.UniqueViolation,
        schema="public",
        adorn=adorn,
        restart=restart,
    )
    try:
        server.start()
        for number in range(pytestconfig.getoption("--examples")):
            seed = random.randrange(10**6)
            print(f"seed {seed}")
            with server.connect() as connection, connection.cursor() as cursor:
                cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            Oracle(dialect, server.url(), cluster, f"{fresh_name}-{number}", seed).run()
    finally:
        server.remove()
