"""A capture of MariaDB that is killed with -9, again and again, while others write."""

import random
import threading
from functools import partial

import pymysql
import pytest

from tests.capture.killing import check_ledger, kill_and_compare
from tests.capture.mariadb.conftest import Shop
from tests.capture.workload import COLUMNS, ChangedMind, random_transaction, replacing, rows_of
from tests.clusters import Cluster, on_one_cluster

_DEADLOCK, _WAITED_TOO_LONG = 1213, 1205


@on_one_cluster
@pytest.mark.timeout(180)
def test_killed_and_started_again_it_neither_loses_nor_repeats(
    cluster: Cluster, shop: Shop, fresh_name: str
) -> None:
    shop.run("CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL, owner VARCHAR(20))")
    shop.run(
        "CREATE TABLE ledger (id BIGINT AUTO_INCREMENT PRIMARY KEY, batch INT, place INT, size INT)"
    )
    shop.run("INSERT INTO accounts SELECT seq, 100, 'owner' FROM seq_1_to_300")

    def client(chance: random.Random, number: int, over: threading.Event) -> int:
        connection, committed, batch = shop.connect(), 0, number * 1_000_000
        connection.autocommit(False)
        while not over.wait(0.005):
            batch += 1
            try:
                with connection.cursor() as cursor:
                    random_transaction(cursor.execute, chance, batch, replacing("%s"))
                connection.commit()
                committed += 1
            except (ChangedMind, pymysql.IntegrityError):
                connection.rollback()
            except pymysql.OperationalError as error:
                if error.args[0] not in (_DEADLOCK, _WAITED_TOO_LONG):
                    raise
                connection.rollback()
        connection.close()
        return committed

    prefix = f"{fresh_name}.{shop.name}"
    topics = {f"{prefix}.{table}": partial(rows_of, shop, table) for table in COLUMNS}
    kill_and_compare(shop.url, cluster, fresh_name, client, kills=2, topics=topics)
    check_ledger(cluster, f"{prefix}.ledger")
