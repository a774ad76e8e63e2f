"""Consumer groups while the broker is killed and started again."""

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.process import BrokerProcess
from tests.clients.librdkafka import eventually, send
from tests.clients.membership import Member, await_shares, await_total, stopping
from tests.clusters import HEADRACE, Cluster


def test_members_go_on_with_their_partitions_after_kill_9(tmp_path: Path):
    broker = BrokerProcess(tmp_path / "data")
    cluster = Cluster(HEADRACE, broker.bootstrap)
    quick = {"group.protocol": "consumer", "reconnect.backoff.max.ms": 200}
    with broker.running():
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 4, 1)])["orders"].result(20)
        with stopping([Member(cluster, "till", ["orders"], quick) for _ in range(2)]) as members:
            await_shares(members, [2, 2])
            shares = [member.assigned for member in members]
            for member in members:
                member.revoked.clear()
            before = admin.describe_consumer_groups(["till"])["till"].result(20)
            broker.kill()
            broker.start()
            for partition in range(4):
                send(cluster, "orders", [b"x"] * 5, partition=partition)
            await_total(members, 20)
            assert [member.assigned for member in members] == shares
            assert all(member.revoked == [] for member in members)
            eventually(lambda: len(described(admin)) == len(before.members))
            assert described(admin) == {member.member_id for member in before.members}


def described(admin: AdminClient) -> set[str]:
    found = admin.describe_consumer_groups(["till"])["till"].result(20)
    return {member.member_id for member in found.members}
