"""A lease has one holder, who is told from those who ask, and a dead one does not keep it."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from headrace.kafka.connection import Connection, GroupCoordinator
from headrace.kafka.lease import SESSION_SECONDS, LeaseHeld, leased
from headrace.kafka.messages import request
from headrace.settings import KafkaSettings
from tests.clusters import Cluster, headrace_process


def never(taken: LeaseHeld) -> None:
    raise AssertionError(f"the lease was lost: {taken}")


@pytest.fixture
def kafka(cluster: Cluster) -> KafkaSettings:
    return KafkaSettings(bootstrap=cluster.bootstrap)


@contextmanager
def holder_process(kafka: KafkaSettings, name: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lease by now."""
    command = [sys.executable, "-m", "tests.kafka.lease_holder", kafka.bootstrap, name, "the other"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_the_second_is_refused_and_told_who_holds_it(kafka: KafkaSettings, group: str):
    with leased(kafka, group, holder="the first", lost=never):
        for _ in range(2):
            with (
                pytest.raises(LeaseHeld, match=f"lease {group} is held by the first"),
                leased(kafka, group, holder="the second", lost=never),
            ):
                pass
    with leased(kafka, group, holder="the second", lost=never):
        pass


def test_of_several_at_once_one_has_it(kafka: KafkaSettings, group: str):
    answers: list[str] = []
    done = threading.Barrier(4, timeout=60)

    def ask(name: str) -> None:
        with ExitStack() as resources:
            try:
                resources.enter_context(leased(kafka, group, holder=name, lost=never))
                answers.append(f"{name} has it")
            except LeaseHeld as held:
                answers.append(f"{held.holder} has it")
            done.wait()

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert len(set(answers)) == 1


def test_after_a_kill_the_next_one_gets_it_when_the_session_is_over(
    kafka: KafkaSettings, group: str
):
    with holder_process(kafka, group) as process:
        with (
            pytest.raises(LeaseHeld, match="held by the other"),
            leased(kafka, group, holder="we", lost=never),
        ):
            pass
        process.kill()
        process.wait()
        began = time.monotonic()
        with leased(kafka, group, holder="we", lost=never):
            assert time.monotonic() - began < 2 * SESSION_SECONDS + 10


def test_a_holder_that_slept_learns_that_it_is_not_the_holder_any_more(
    kafka: KafkaSettings, group: str
):
    with holder_process(kafka, group) as process:
        process.send_signal(signal.SIGSTOP)
        with leased(kafka, group, holder="we", lost=never):
            process.send_signal(signal.SIGCONT)
            assert process.stdout is not None
            assert process.stdout.readline() == "lost\n"


def test_a_cluster_that_restarts_does_not_take_it_away(group: str):
    with headrace_process() as broker:
        kafka = KafkaSettings(bootstrap=broker.cluster.bootstrap)
        with leased(kafka, group, holder="the first", lost=never):
            broker.kill()
            broker.start()
            await_members(kafka, group)
            with (
                pytest.raises(LeaseHeld, match="held by the first"),
                leased(kafka, group, holder="the second", lost=never),
            ):
                pass


def await_members(kafka: KafkaSettings, group: str, seconds: float = 60) -> None:
    """Wait until a group has a member that has all it needs."""
    connection = Connection(kafka)
    asked = request("describe_groups", 5, groups=[group], include_authorized_operations=False)
    deadline = time.monotonic() + seconds
    while True:
        (found,) = connection.ask(GroupCoordinator(group), asked).groups
        if found.group_state == "Stable" and found.members:
            break
        assert time.monotonic() < deadline, "the holder does not come back"
        time.sleep(0.05)
    connection.close()
