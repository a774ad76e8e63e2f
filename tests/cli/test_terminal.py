"""What commands do where a person sits: ask, use colour, and take Ctrl-C for an answer."""

import signal

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.cli.conftest import Headrace
from tests.cli.terminals import terminal
from tests.clusters import Cluster


@pytest.mark.parametrize(("answer", "offset"), [("y", 0), ("n", 4)])
def test_a_reset_is_asked_for(
    cluster: Cluster, topic: str, group: str, on_cluster: Headrace, answer: str, offset: int
):
    on_cluster("produce", topic, *"abcdef")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    with terminal("groups", "reset", group, "--to", "earliest", cluster=cluster) as screen:
        screen.wait_for("Move in 1 partition? [y/N]:")
        screen.type(f"{answer}\n")
        assert screen.finish() == 0
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=20)
    consumer.close()
    assert found.offset == offset


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_a_deletion_is_asked_for(
    cluster: Cluster, topic: str, on_cluster: Headrace, answer: str, code: int
):
    with terminal("topics", "delete", topic, cluster=cluster) as screen:
        screen.wait_for(f"Delete {topic} and every record? [y/N]:")
        screen.type(f"{answer}\n")
        assert screen.finish() == code
    assert on_cluster("topics", "describe", topic).exit_code == 1 - code


def test_typed_lines_are_produced_until_ctrl_d(cluster: Cluster, topic: str, on_cluster: Headrace):
    with terminal("produce", topic, cluster=cluster) as screen:
        screen.wait_for("Type one record per line; Ctrl-D ends.")
        screen.type("one\ntwo\n\x04")
        assert screen.finish() == 0
        assert f"Produced 2 records to {topic}." in screen.shown
    assert on_cluster("tail", topic, "-F", "--raw").stdout == "one\ntwo\n"


def test_ctrl_c_ends_typing_but_what_was_typed_is_delivered(
    cluster: Cluster, topic: str, on_cluster: Headrace
):
    with (
        terminal("tail", topic, "--raw", cluster=cluster) as watching,
        terminal("produce", topic, cluster=cluster) as typing,
    ):
        typing.wait_for("Ctrl-D ends.")
        typing.type("one\n")
        watching.wait_for("one")
        typing.interrupt()
        assert typing.finish() == 130
        assert f"Produced 1 record to {topic}." in typing.shown


def test_records_are_coloured(cluster: Cluster, topic: str, on_cluster: Headrace):
    on_cluster("produce", topic, '{"n": 1}')
    with terminal("tail", topic, "--no-follow", cluster=cluster) as screen:
        assert screen.finish() == 0
        assert '{\x1b[34m"n"\x1b[0m: \x1b[33m1\x1b[0m}' in screen.shown


def test_lag_is_watched_on_a_screen_until_ctrl_c(
    cluster: Cluster,
    topic: str,
    group: str,
    on_cluster: Headrace,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("COLUMNS", "200")
    on_cluster("produce", topic, *"abcdef")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    arguments = ("groups", "watch", group, "--interval", "200ms", "--no-history")
    with terminal(*arguments, cluster=cluster) as screen:
        screen.wait_for("CATCHES UP")
        consumer.commit(offsets=[TopicPartition(topic, 0, 6)], asynchronous=False)
        screen.wait_for("is there")
        screen.process.send_signal(signal.SIGINT)
        assert screen.finish() == 0
    consumer.close()
    assert "Traceback" not in screen.shown
