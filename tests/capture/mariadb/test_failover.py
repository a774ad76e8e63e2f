"""A replica that takes over: with all that was captured, and without the last of it."""

from collections.abc import Iterator

import pytest

from headrace import Broker
from headrace.capture import PositionLost
from tests.capture.mariadb.conftest import Shop, administer
from tests.capture.mariadb.server import MariadbServer
from tests.capture.replaying import eventually, values_of
from tests.capture.starting import capture, following, items


@pytest.fixture
def replica(mariadb: MariadbServer, shop: Shop) -> Iterator[MariadbServer]:
    """A server that has what the shared one is told from now on."""
    server = MariadbServer()
    try:
        server.start(server_id="2", log_slave_updates="ON")
        ((position,),) = shop.run("SELECT @@gtid_binlog_pos")
        for sql in (
            f"SET GLOBAL gtid_slave_pos = '{position}'",
            f"CREATE DATABASE {shop.name}",
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {mariadb.port}",
            "CHANGE MASTER TO MASTER_USER = 'admin', MASTER_USE_GTID = slave_pos",
            "START SLAVE",
        ):
            administer(server, sql)
        yield server
    finally:
        server.remove()


def test_a_replica_is_gone_on_from_where_it_has_all_and_refused_where_it_has_not(
    shop: Shop, replica: MariadbServer, broker: Broker, fresh_name: str
) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    shop.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    topic = f"{fresh_name}.{shop.name}.t"
    with capture(shop.url, broker, fresh_name) as running:
        eventually(lambda: following(running))
        shop.run("UPDATE t SET n = 3 WHERE id = 1")
        eventually(lambda: items(broker, topic) == [(1, 3), (2, 2)])
    follower = Shop(replica, shop.name)
    ((written,),) = shop.run("SELECT @@gtid_binlog_pos")
    eventually(lambda: follower.run("SELECT @@gtid_slave_pos") == [(written,)])

    # The primary goes on, and this commit is captured and never replicated.
    follower.run("STOP SLAVE")
    shop.run("INSERT INTO t VALUES (9, 9)")
    with capture(shop.url, broker, f"{fresh_name}-later") as running:
        eventually(lambda: following(running))
    follower.run("INSERT INTO t VALUES (3, 3)")
    follower.run("DELETE FROM t WHERE id = 2")

    with capture(replica.url(shop.name), broker, fresh_name) as running:
        eventually(lambda: items(broker, topic) == [(1, 3), (3, 3)])
    told = [each["op"] for each in values_of(broker.bootstrap, topic) if each]
    assert told == ["r", "r", "u", "c", "d"], "it did not simply go on"

    later = f"{fresh_name}-later"
    with pytest.raises(PositionLost):
        capture(replica.url(shop.name), broker, later).run()
    with capture(replica.url(shop.name), broker, later, lost="snapshot") as running:
        eventually(lambda: following(running))
        eventually(lambda: items(broker, f"{later}.{shop.name}.t") == [(1, 3), (3, 3)])
    follower.close()
