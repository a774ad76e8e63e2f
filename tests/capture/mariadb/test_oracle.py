"""Random tables and transactions on MariaDB, with a capture that is killed again and again."""

import random
from typing import Any

import pymysql
import pytest

from tests.capture.mariadb.conftest import Shop, administer
from tests.capture.oracle import DAY, DECIMAL, FLOAT, TEXT, WHOLE, Dialect, Oracle, binary
from tests.clusters import Cluster, on_one_cluster


@on_one_cluster
@pytest.mark.timeout(1800)
def test_topics_lead_to_the_tables_whatever_happens(
    cluster: Cluster, shop: Shop, fresh_name: str, pytestconfig: pytest.Config
) -> None:
    def connect() -> Any:
        connection = shop.connect()
        connection.autocommit(False)
        with connection.cursor() as cursor:
            # Otherwise keys that are not there are locked too.
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return connection

    def restart() -> None:
        shop.server.stop()
        shop.server.start()
        shop.reconnect()
        keep_commits()

    def keep_commits() -> None:
        # A server that is killed would forget those that its own log does not have yet.
        administer(shop.server, "SET GLOBAL innodb_flush_log_at_trx_commit = 2")

    keep_commits()
    dialect = Dialect(
        kinds=(WHOLE, TEXT, FLOAT, DECIMAL, DAY, binary("BLOB")),
        connect=connect,
        violated=pymysql.IntegrityError,
        schema=shop.name,
        overwrite="ON DUPLICATE KEY UPDATE",
        excluded="VALUES({name})",
        restart=restart,
    )
    for number in range(pytestconfig.getoption("--examples")):
        seed = random.randrange(10**6)
        print(f"seed {seed}")
        administer(shop.server, f"DROP DATABASE {shop.name}")
        administer(shop.server, f"CREATE DATABASE {shop.name}")
        Oracle(dialect, shop.url, cluster, f"{fresh_name}-{number}", seed).run()
