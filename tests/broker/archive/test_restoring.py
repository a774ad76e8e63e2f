"""A broker that is lost with its disk, and rebuilt from its archive."""

import json
import shutil
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType
from typer.testing import CliRunner, Result

from headrace.cli.main import app
from tests.broker.archive.archived_topic import (
    TOPIC,
    admin,
    consume,
    create,
    delete,
    eventually,
    local_segments,
    objects,
    produce,
    running,
    value_of,
    written,
)
from tests.broker.process import BrokerProcess

OPTIONS = (
    *("--set", "archive_interval=50ms", "--set", "retention_check=50ms"),
    *("--flush", "os", "--set", "auto_create_topics=false"),
)


def headrace(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["archive", *arguments])


def restored(*arguments: str) -> Result:
    """Restore without a question."""
    return headrace("restore", "--yes", *arguments)


def commit(bootstrap: str, group: str, offset: int, topic: str = TOPIC) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topic: str = TOPIC) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=10)
    consumer.close()
    return int(found.offset)


def config(bootstrap: str, topic: str = TOPIC) -> dict[str, str]:
    client = admin(bootstrap)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = client.describe_configs([resource])[resource].result(10)
    return {name: entry.value for name, entry in described.items() if not entry.is_default}


def archived_end(location: Path) -> int:
    """Where the archive of the topic ends, as the command tells."""
    shown = headrace("status", "--from", str(location), "--json", "--bootstrap", "127.0.0.1:1")
    partitions = json.loads(shown.stdout)["partitions"]
    return int(partitions[0]["end_offset"]) if partitions else 0


def test_a_broker_killed_under_load_is_rebuilt_from_its_archive_alone(tmp_path: Path) -> None:
    location, data, rebuilt = tmp_path / "archive", tmp_path / "data", tmp_path / "rebuilt"
    archive = ("--set", f"archive={location}")
    stop = threading.Event()
    lost = BrokerProcess(data, *OPTIONS, *archive)
    with lost.running():
        create(lost.bootstrap, max_message_bytes="123456")
        create(lost.bootstrap, "unarchived", remote_storage_enable="false")
        produce(lost.bootstrap, 0, 500)
        commit(lost.bootstrap, "readers", 321)
        commit(lost.bootstrap, "ahead", 10_000_000)
        eventually(lambda: local_segments(data)[0] > 300)
        configured = config(lost.bootstrap)
        load = threading.Thread(target=produce_until, args=(lost.bootstrap, 500, stop))
        load.start()
        try:
            eventually(lambda: local_segments(data)[0] > 1000)
            lost.kill()
        finally:
            stop.set()
            load.join()
    shutil.rmtree(data)

    end = archived_end(location)
    result = restored("--from", str(location), "--data", str(rebuilt))
    assert result.exit_code == 0, result.output
    assert "Restored 2 topics" in result.stdout
    assert "Group ahead was at offset 10000000" in result.stderr
    assert "unarchived has nothing in the archive" in result.stderr

    with BrokerProcess(rebuilt, *OPTIONS, *archive).running() as broker:
        assert consume(broker.bootstrap, end) == written(0, end)
        assert config(broker.bootstrap) == configured
        assert committed(broker.bootstrap, "readers") == 321
        assert committed(broker.bootstrap, "ahead") == end
        produce(broker.bootstrap, end, 200)
        assert consume(broker.bootstrap, end + 200) == written(0, end + 200)
        eventually(lambda: archived_end(location) > end)
    result = headrace("verify", "--from", str(location))
    assert result.exit_code == 0, result.output
    assert "0 damaged" in result.stdout


def produce_until(bootstrap: str, first: int, stop: threading.Event) -> None:
    """Write on and on, to a broker that will not be there at the end."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 5})
    number = first
    while not stop.is_set():
        try:
            producer.produce(TOPIC, value_of(number))
        except BufferError:
            producer.poll(0.1)
            continue
        number += 1
        producer.poll(0.001)
    producer.purge()
    producer.flush(1)


@pytest.fixture
def location(tmp_path: Path) -> Path:
    """An archive whose broker has stopped."""
    place = tmp_path / "archive"
    with running(tmp_path / "data", place) as broker:
        create(broker.bootstrap)
        produce(broker.bootstrap, 0, 300)
        eventually(lambda: local_segments(tmp_path / "data")[0] > 200)
    return place


def test_records_can_be_brought_back_at_once(location: Path, tmp_path: Path) -> None:
    rebuilt = tmp_path / "rebuilt"
    result = restored("--from", str(location), "--data", str(rebuilt), "--download")
    assert result.exit_code == 0, result.output
    assert local_segments(rebuilt)[0] == 0
    end = archived_end(location)
    with running(rebuilt, location, retention_check_ms=60_000) as broker:
        shutil.rmtree(location / "partitions")
        assert consume(broker.bootstrap, end) == written(0, end)


def test_what_was_aborted_stays_so_when_records_are_brought_back(tmp_path: Path) -> None:
    location, rebuilt = tmp_path / "archive", tmp_path / "rebuilt"
    with running(tmp_path / "data", location) as broker:
        create(broker.bootstrap)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(TOPIC, b"aborted")
        producer.flush()
        producer.abort_transaction()
        produce(broker.bootstrap, 0, 100)
        eventually(lambda: archived_end(location) > 50)
    result = restored("--from", str(location), "--data", str(rebuilt), "--download")
    assert result.exit_code == 0, result.output
    with running(rebuilt, location, retention_check_ms=60_000) as broker:
        ((_, value),) = consume(broker.bootstrap, 1)
        assert value == value_of(0)


def test_the_broker_that_was_replaced_writes_no_more(location: Path, tmp_path: Path) -> None:
    restored("--from", str(location), "--data", str(tmp_path / "rebuilt"))
    before = objects(location)
    with running(tmp_path / "data", location) as broker:
        produce(broker.bootstrap, 300, 300)
        # Nothing local is given up while the archive is another's.
        assert consume(broker.bootstrap, 600) == written(0, 600)
    assert objects(location) == before


def test_a_restoration_that_broke_off_is_begun_again(location: Path, tmp_path: Path) -> None:
    rebuilt = tmp_path / "rebuilt"
    rebuilt.mkdir()
    (rebuilt / ".restoring").touch()
    (rebuilt / "half").mkdir()
    result = restored("--from", str(location), "--data", str(rebuilt))
    assert result.exit_code == 0, result.output
    assert not (rebuilt / "half").exists()


@pytest.mark.parametrize("command", ["status", "verify", "restore"])
def test_what_is_no_archive_is_refused(command: str, tmp_path: Path) -> None:
    data = ["--data", str(tmp_path / "new")] if command == "restore" else []
    result = headrace(command, "--from", str(tmp_path / "nothing"), *data)
    assert result.exit_code == 1
    assert "there is no archive" in result.stderr


def test_a_directory_with_something_in_it_is_left_alone(location: Path, tmp_path: Path) -> None:
    result = restored("--from", str(location), "--data", str(tmp_path / "data"))
    assert result.exit_code == 1
    assert "nothing in it is overwritten" in result.stderr


def test_an_archive_that_is_not_named_is_asked_for() -> None:
    result = headrace("status")
    assert result.exit_code == 1
    assert "--from" in result.stderr


def test_damage_is_found(location: Path) -> None:
    damaged, missing = objects(location)[:2]
    content = bytearray(damaged.read_bytes())
    content[100] ^= 1
    damaged.write_bytes(content)
    missing.unlink()
    (missing.parent / "stray.log").write_bytes(b"left behind")
    result = headrace("verify", "--from", str(location))
    assert result.exit_code == 1
    for each in (damaged, missing):
        (line,) = [line for line in result.stderr.splitlines() if each.name in line]
        assert line.count(each.name) == line.count(f"{TOPIC}-0: ") == 1
    assert "stray.log" in result.stderr
    assert "2 damaged" in result.stdout


def test_status_tells_what_is_there(location: Path) -> None:
    result = headrace("status", "--from", str(location), "--bootstrap", "127.0.0.1:1")
    assert result.exit_code == 0, result.output
    assert f"{TOPIC}-0" in result.stdout
    assert "copied" in result.stdout


def test_a_topic_that_was_deleted_does_not_come_back(location: Path, tmp_path: Path) -> None:
    with running(tmp_path / "data", location) as broker:
        delete(broker.bootstrap)
        eventually(lambda: not objects(location))
    result = restored("--from", str(location), "--data", str(tmp_path / "rebuilt"))
    assert "Restored 0 topics" in result.stdout


def test_an_archive_is_not_taken_from_its_broker_without_a_word(
    location: Path, tmp_path: Path
) -> None:
    rebuilt = tmp_path / "rebuilt"
    result = headrace("restore", "--from", str(location), "--data", str(rebuilt))
    assert result.exit_code == 2
    assert "say --yes" in result.stderr
    assert not rebuilt.exists()
    result = restored("--from", str(location), "--data", str(rebuilt))
    assert "used this archive before can no longer archive there" in result.stderr


def test_restoring_names_what_the_archive_has_lost(location: Path, tmp_path: Path) -> None:
    missing, shortened = objects(location)[:2]
    missing.unlink()
    shortened.write_bytes(b"short")
    result = restored("--from", str(location), "--data", str(tmp_path / "rebuilt"))
    assert result.exit_code == 0, result.output
    lost = [line for line in result.stderr.splitlines() if "are lost" in line]
    assert [line.count(f"{TOPIC}-0: ") for line in lost] == [1, 1]
    assert f"{missing.name} is missing: offsets 0 to " in lost[0]
    assert f"{shortened.name} has 5 bytes, not " in lost[1]
