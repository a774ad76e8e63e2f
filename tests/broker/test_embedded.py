"""`headrace.Broker` in a program: starts, serves, keeps, refuses and stops."""

import os
import socket
import struct
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Broker, HeadraceError


def write(bootstrap: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("events", value)
    assert producer.flush(10) == 0


def read_first(bootstrap: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition("events", 0, 0)])
    (message,) = consumer.consume(1, timeout=10)
    consumer.close()
    return message.value()


def test_a_temporary_broker_leaves_nothing_behind() -> None:
    with Broker() as broker:
        write(broker.bootstrap, b"here")
        data = broker.data
        assert read_first(broker.bootstrap) == b"here"
    assert not data.exists()
    assert not [thread for thread in threading.enumerate() if thread.name == "headrace-broker"]


def test_data_in_a_given_directory_is_there_the_next_time(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        write(broker.bootstrap, b"kept")
    with Broker(tmp_path / "data") as broker:
        assert read_first(broker.bootstrap) == b"kept"


def test_two_brokers_on_one_directory_cannot_be(tmp_path: Path) -> None:
    with Broker(tmp_path), pytest.raises(HeadraceError, match="in use by process"):
        Broker(tmp_path).start()


def test_an_address_that_is_taken_is_refused_with_advice() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            HeadraceError, match=r"cannot listen on .*: address already in use; .*port 0"
        ):
            Broker(listen=address).start()


def test_a_wrong_setting_is_refused_before_anything_starts() -> None:
    with pytest.raises(HeadraceError, match="must be one of ack, interval, os"):
        Broker(flush="never").start()


def test_a_misspelt_setting_is_refused_with_the_right_one() -> None:
    with pytest.raises(HeadraceError, match='did you mean "partitions"'):
        Broker(partitons=3)


def test_stopping_twice_does_no_harm_and_a_stopped_broker_has_no_address() -> None:
    broker = Broker().start()
    broker.stop()
    broker.stop()
    with pytest.raises(HeadraceError, match="not running"):
        _ = broker.bootstrap


def ask_for_versions(bootstrap: str, first: int, wrong: list[int]) -> None:
    """Send many small requests at a time and note replies to requests that were never sent."""
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), 5) as connection:
        stream = connection.makefile("rb")
        for start in range(first, first + 6_000, 200):
            ids = range(start, start + 200)
            connection.sendall(b"".join(struct.pack(">ihhih", 10, 18, 0, one, -1) for one in ids))
            for one in ids:
                size, answered = struct.unpack(">ii", stream.read(8))
                stream.read(size - 4)
                if answered != one:
                    wrong.append(answered)
                    return


def test_two_brokers_in_one_process_do_not_mix_up_what_they_receive() -> None:
    wrong: list[int] = []
    with Broker() as one, Broker() as two:
        threads = [
            threading.Thread(target=ask_for_versions, args=(broker.bootstrap, first, wrong))
            for broker, first in ((one, 0), (two, 1_000_000))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert not wrong


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(("listen", "reached"), [("0.0.0.0:0", "127.0.0.1:"), ("[::]:0", "[::1]:")])
def test_a_broker_on_every_interface_names_an_address_that_can_be_reached(
    listen: str, reached: str
) -> None:
    if "::" in listen and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with Broker(listen=listen) as broker:
        assert broker.bootstrap.startswith(reached)
        write(broker.bootstrap, b"here")


def test_a_forked_child_leaves_the_broker_alone() -> None:
    with Broker() as broker:
        child = os.fork()
        if child == 0:
            broker.stop()
            os._exit(0 if broker.data.exists() else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
        write(broker.bootstrap, b"still here")
        assert read_first(broker.bootstrap) == b"still here"
