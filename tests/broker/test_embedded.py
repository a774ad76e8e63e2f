"""`headrace.Broker` in a program: starts, serves, keeps, refuses and stops."""

import socket
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
        with pytest.raises(HeadraceError, match=r"cannot listen on .*--port 0"):
            Broker(listen=address).start()


def test_a_wrong_setting_is_refused_before_anything_starts() -> None:
    with pytest.raises(HeadraceError, match="must be one of ack, interval, os"):
        Broker(flush="never").start()


def test_stopping_twice_does_no_harm_and_a_stopped_broker_has_no_address() -> None:
    broker = Broker().start()
    broker.stop()
    broker.stop()
    with pytest.raises(HeadraceError, match="not running"):
        _ = broker.bootstrap
