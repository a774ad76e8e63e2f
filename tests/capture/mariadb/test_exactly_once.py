"""A capture of MariaDB that is killed with -9, again and again, while others write."""

import random
import threading

import pymysql
import pytest

from tests.capture.killing import ChangedMind, kill_and_compare, random_transaction
from tests.capture.mariadb.conftest import Shop
from tests.clusters import Cluster

_DEADLOCK, _WAITED_TOO_LONG = 1213, 1205


@pytest.mark.timeout(180)
def test_killed_and_started_again_it_neither_loses_nor_repeats(
    cluster: Cluster, shop: Shop, fresh_name: str
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
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
                    random_transaction(cursor.execute, chance, batch, "%s")
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

    kill_and_compare(shop, cluster, fresh_name, shop.name, seed=seed, kills=2, client=client)
