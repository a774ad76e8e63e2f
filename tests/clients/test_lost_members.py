"""Members that vanish, and members with a name of their own that come back."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient

from tests.clients.librdkafka import eventually, send
from tests.clients.membership import Member, await_shares, await_total, stopping
from tests.clusters import Cluster
from tests.conftest import TopicFactory

SESSION_SECONDS = 6

PROGRAM = """
import sys
from confluent_kafka import Consumer

bootstrap, group, topic, instance, session = sys.argv[1:]
config = {
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "session.timeout.ms": int(session),
    "heartbeat.interval.ms": 200,
    "auto.offset.reset": "earliest",
}
if instance:
    config["group.instance.id"] = instance
consumer = Consumer(config)
consumer.subscribe([topic], on_assign=lambda _, parts: print(len(parts), flush=True))
while True:
    consumer.poll(1)
"""


@contextmanager
def killable_member(
    cluster: Cluster, group: str, topic: str, instance: str = ""
) -> Iterator["subprocess.Popen[str]"]:
    """A member in a process of its own, once it has been given partitions."""
    membership = (cluster.bootstrap, group, topic, instance, str(SESSION_SECONDS * 1000))
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *membership],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert int(process.stdout.readline()) > 0
            yield process
        finally:
            process.kill()


def test_the_partitions_of_a_killed_member_are_taken_over_after_its_session(
    cluster: Cluster, new_topic: TopicFactory, group: str
):
    def takeover(instance: str) -> float:
        topic = new_topic(partitions=2)
        crew = f"{group}-{instance or 'dynamic'}"
        with killable_member(cluster, crew, topic, instance) as doomed:
            survivors = [Member(cluster, crew, [topic])]
            with stopping(survivors):
                await_shares(survivors, [1])
                os.kill(doomed.pid, signal.SIGKILL)
                killed = time.monotonic()
                await_shares(survivors, [2])
                waited = time.monotonic() - killed
                for partition in range(2):
                    send(cluster, topic, [b"x"], partition=partition)
                await_total(survivors, 2)
        return waited

    with ThreadPoolExecutor(2) as pool:
        waits = list(pool.map(takeover, ["", "static"]))
    assert all(SESSION_SECONDS - 1.5 < waited < SESSION_SECONDS + 4 for waited in waits)


def test_a_static_member_that_returns_in_time_gets_its_partitions_back_without_a_rebalance(
    cluster: Cluster, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=2)
    with stopping([Member(cluster, group, [topic], {"group.instance.id": "stays"})]) as members:
        await_shares(members, [2])
        returning = {"group.instance.id": "returns"}
        members.append(Member(cluster, group, [topic], returning))
        await_shares(members, [1, 1])
        before = members[1].assigned
        calm = len(members[0].revoked)
        members.pop().stop()
        members.append(Member(cluster, group, [topic], returning))
        await_shares(members, [1, 1])
        assert members[1].assigned == before
        assert len(members[0].revoked) == calm


def test_a_second_member_of_the_same_name_fences_the_first(
    cluster: Cluster, topic: str, group: str
):
    named = {"group.instance.id": "one and only"}
    with stopping([Member(cluster, group, [topic], named)]) as members:
        await_shares(members, [1])
        members.append(Member(cluster, group, [topic], named))
        first, second = members
        eventually(lambda: second.assigned)
        eventually(lambda: "_FATAL" in [error.name() for error in first.errors])


def test_static_members_are_described_by_their_names(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=2)
    names = ["left", "right"]
    with stopping(
        [Member(cluster, group, [topic], {"group.instance.id": name}) for name in names]
    ) as members:
        await_shares(members, [1, 1])
        described = admin.describe_consumer_groups([group])[group].result(20)
        assert sorted(member.group_instance_id for member in described.members) == names


def test_leaving_is_noticed_long_before_the_session_ends(
    cluster: Cluster, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=2)
    with stopping([Member(cluster, group, [topic]) for _ in range(2)]) as members:
        await_shares(members, [1, 1])
        began = time.monotonic()
        members.pop().stop()
        await_shares(members, [2])
        assert time.monotonic() - began < SESSION_SECONDS - 2
