"""Erasing records on a running broker: what goes, what stays, what is refused."""

import hmac
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace import Broker, __version__
from headrace.kafka import ExcisionRefused, UnknownTopic, start_excision
from tests.broker.erasing import (
    TOPIC,
    cluster_at,
    create,
    customer,
    erase,
    expected,
    files_with,
    quiet_producer,
    read,
    secret,
    write,
)

ERASED = [customer(3), customer(5)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker whose segments hold a few dozen records."""
    with Broker(segment_bytes=4096, flush="os") as running:
        yield running


def test_records_go_and_all_others_stay(broker: Broker) -> None:
    for round_, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
        write(broker.bootstrap, 140, first=140 * round_, codec=codec)
    dry = erase(broker.bootstrap, *ERASED, dry_run=True)
    assert (dry["dry_run"], dry["records"], dry["files"], dry["check"]) == (True, 200, [], None)
    assert len(read(broker.bootstrap)) == 700
    assert not (broker.data / "excisions").exists()

    receipt = erase(broker.bootstrap, *ERASED)
    assert read(broker.bootstrap) == expected(700, ERASED)
    assert files_with(broker.data, customer(3)) == []
    assert not any(files_with(broker.data, secret(number)) for number in range(3, 140, 7))
    assert list(broker.data.rglob("*.rewritten")) == []

    assert (receipt["version"], receipt["headrace"], receipt["topic"]) == (1, __version__, TOPIC)
    assert receipt["records"] == 200
    assert receipt["partitions"] == [
        {
            "partition": 0,
            "until": 700,
            "offsets": [[number, number] for number in range(700) if number % 7 in (3, 5)],
        }
    ]
    assert sum(each["records"] for each in receipt["files"]) == 200
    assert all(each["sha256_before"] != each["sha256_after"] for each in receipt["files"])
    assert receipt["check"]["passed"]
    assert receipt["check"]["strings"] == 202
    assert receipt["readers_of_old_files"] == 0
    salt = bytes.fromhex(receipt["criteria"]["salt"])
    digests = {hmac.digest(salt, key, "sha256").hex() for key in ERASED}
    assert set(receipt["criteria"]["keys"]) == digests
    kept = json.loads((broker.data / "excisions" / f"{receipt['job']}.json").read_text())
    assert kept == receipt

    again = erase(broker.bootstrap, *ERASED)
    assert (again["records"], again["files"], again["check"]["passed"]) == (0, [], True)


def test_headers_and_partitions_choose_too(broker: Broker) -> None:
    create(broker.bootstrap, partitions=2)
    write(broker.bootstrap, 100)
    with quiet_producer({"bootstrap.servers": broker.bootstrap}) as producer:
        producer.produce(TOPIC, b"other", customer(3), partition=1)
    receipt = erase(broker.bootstrap, headers=[("parity", b"odd")], partitions=[0])
    assert receipt["records"] == 50
    assert read(broker.bootstrap) == [(number, secret(number)) for number in range(0, 100, 2)]
    receipt = erase(broker.bootstrap, customer(3), partitions=[0])
    assert receipt["check"]["elsewhere"][0]["file"] == f"{TOPIC}-1/00000000000000000000.log"


def test_what_cannot_be_done_is_refused_with_the_reason(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = broker.bootstrap
    with pytest.raises(UnknownTopic):
        erase(bootstrap, b"key", topic="nowhere")
    write(bootstrap, 200)
    with pytest.raises(ExcisionRefused, match="has no partition 3"):
        erase(bootstrap, b"key", partitions=[3])
    with monkeypatch.context() as patched:
        full = os.statvfs_result((4096, 4096, 10, 1, 1, 10, 10, 10, 0, 255))
        patched.setattr("headrace.broker.excision.job.os.statvfs", lambda _: full)
        with pytest.raises(ExcisionRefused, match=r"has 4096 free; nothing was changed"):
            erase(bootstrap, customer(3))
        assert len(read(bootstrap)) == 200
    job = start_excision(cluster_at(bootstrap), TOPIC, keys=[b"nobody"])
    with pytest.raises(ExcisionRefused, match=f"{job} of {TOPIC}-0 is under way"):
        start_excision(cluster_at(bootstrap), TOPIC, keys=[b"nobody"])


def test_a_damaged_segment_is_refused_before_anything_is_changed(broker: Broker) -> None:
    write(broker.bootstrap, 700)
    damaged = sorted((broker.data / f"{TOPIC}-0").glob("*.log"))[1]
    data = bytearray(damaged.read_bytes())
    data[200] ^= 1
    with damaged.open("r+b") as file:
        file.write(data)
    before = {path: path.read_bytes() for path in broker.data.rglob("*.log")}
    with pytest.raises(ExcisionRefused, match=f"{damaged.name} cannot be read from byte 0 on"):
        erase(broker.bootstrap, customer(3))
    after = {path: path.read_bytes() for path in broker.data.rglob("*.log")}
    assert {path: after[path] for path in before} == before


def test_transactions_are_left_as_they_were(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Broker(data) as broker:
        committed = excise_between_transactions(broker.bootstrap)
        assert read(broker.bootstrap, isolation="read_committed") == committed
    # What is known of transactions must also come back from the batches alone.
    (data / f"{TOPIC}-0" / "checkpoint").unlink()
    with Broker(data) as broker:
        assert read(broker.bootstrap, isolation="read_committed") == committed


def excise_between_transactions(bootstrap: str) -> list[tuple[int, bytes]]:
    """Erase records of committed and aborted transactions; what a reader of committed ones sees."""
    create(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(10)
    for number in range(3):
        producer.begin_transaction()
        for each in range(10):
            producer.produce(TOPIC, secret(10 * number + each), customer(each), partition=0)
        if number == 1:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction(10)
    producer.begin_transaction()
    producer.produce(TOPIC, b"undecided", customer(3), partition=0)
    producer.flush()
    with pytest.raises(ExcisionRefused, match="a transaction is open in people-0 since offset 33"):
        erase(bootstrap, customer(3), patience_ms=300)
    producer.commit_transaction(10)

    committed = read(bootstrap, isolation="read_committed")
    assert erase(bootstrap, customer(3))["records"] == 4
    left = [
        (offset, value)
        for offset, value in committed
        if value != b"undecided" and int(value[8:14]) % 10 != 3
    ]
    assert read(bootstrap, isolation="read_committed") == left
    assert b"undecided" not in dict(read(bootstrap)).values()
    producer.begin_transaction()
    producer.produce(TOPIC, b"one more", b"somebody", partition=0)
    producer.commit_transaction(10)
    return [*left, (read(bootstrap)[-1][0], b"one more")]


def test_compaction_and_excision_take_turns(tmp_path: Path) -> None:
    """Compaction rewrites all the time; what it copies must not bring back what was erased."""
    with Broker(tmp_path / "data", segment_bytes=4096, compaction_check_ms=20) as broker:
        create(broker.bootstrap, cleanup_policy="compact", min_cleanable_dirty_ratio="0.001")
        for round_ in range(2):
            first = 280 * round_
            write(broker.bootstrap, 280, first=first)
            receipt = erase(broker.bootstrap, *ERASED)
            assert receipt["check"]["passed"], receipt["check"]
            found = read(broker.bootstrap)
            stays = expected(first + 280, ERASED)
            assert set(found) <= set(stays)
            assert found[-5:] == stays[-5:]
            assert not any(files_with(broker.data, key) for key in ERASED)


def test_a_broker_that_stops_in_the_middle_leaves_no_files(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Broker(data, segment_bytes=4096) as broker:
        write(broker.bootstrap, 3000)
        start_excision(cluster_at(broker.bootstrap), TOPIC, keys=ERASED)
    assert list(data.rglob("*.rewritten")) == []
    with Broker(data, segment_bytes=4096) as broker:
        assert erase(broker.bootstrap, *ERASED)["check"]["passed"]
    with Broker(data, segment_bytes=4096) as broker:
        assert read(broker.bootstrap) == expected(3000, ERASED)
