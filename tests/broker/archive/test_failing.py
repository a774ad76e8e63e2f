"""An archive that fails: the broker goes on, and whoever looks is told."""

import re
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.main import app
from headrace.kafka import Cluster, Partition, Reader
from headrace.kafka import reader as reader_module
from headrace.settings import KafkaSettings
from headrace.testing.probe import free_ports
from tests.broker.archive.archived_topic import (
    TOPIC,
    create,
    eventually,
    local_segments,
    produce,
    running,
)


def headrace(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["archive", *arguments])


def status(location: Path, bootstrap: str) -> str:
    """What the command complains of."""
    result = headrace("status", "--from", str(location), "--bootstrap", bootstrap)
    assert result.exit_code == 0, result.output
    return result.stderr


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def location(data: Path, tmp_path: Path) -> Path:
    """An archive whose broker has stopped."""
    place = tmp_path / "archive"
    with running(data, place) as broker:
        create(broker.bootstrap)
        produce(broker.bootstrap, 0, 300)
        eventually(lambda: local_segments(data)[0] > 200)
    return place


def test_a_broker_whose_archive_was_taken_over_says_so(
    location: Path, data: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as response:
            return str(response.read().decode())

    def metric(name: str) -> int:
        (value,) = re.findall(rf"^headrace_{name} (\d+)$", get("metrics"), re.MULTILINE)
        return int(value)

    with running(data, location, metrics=f"127.0.0.1:{port}") as broker:
        assert get("health") == "ok\n"
        assert metric("archive_failing") == 0
        restore = ["restore", "--yes", "--from", str(location), "--data", str(tmp_path / "rebuilt")]
        result = headrace(*restore, "--bootstrap", broker.bootstrap)
        assert result.exit_code == 1
        assert f"the broker at {broker.bootstrap} archives to {location}" in result.stderr
        assert "cannot archive" not in status(location, broker.bootstrap)
        result = headrace(*restore, "--bootstrap", "127.0.0.1:1")
        assert result.exit_code == 0, result.output
        eventually(lambda: metric("archive_failing"))
        produce(broker.bootstrap, 300, 300)
        assert metric("archive_pending_bytes") > 20_000
        heading, reason = get("health").splitlines()
        assert heading == "archiving fails"
        assert "Leave the archive's location as it is" in reason
        assert f"The broker cannot archive: {reason}" in status(location, broker.bootstrap)


def test_a_broker_that_has_archived_nothing_is_sent_elsewhere(
    location: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(tmp_path / "other", location):
        eventually(lambda: "an archive location of its own" in caplog.text)


def test_a_reader_of_an_archive_that_is_missing_hears_of_it(
    location: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_STALL_SECONDS", 0.5)
    stalled: list[list[Partition]] = []
    where = Partition(TOPIC, 0)
    elsewhere = location.rename(tmp_path / "elsewhere")
    with running(data, location) as broker:
        cluster = Cluster(KafkaSettings(bootstrap=broker.bootstrap))
        with Reader(cluster, {where: 0}, on_stall=stalled.append) as reader:
            batches = reader.batches()
            while not stalled:
                assert next(batches) == []
            assert stalled == [[where]]
            elsewhere.rename(location)
            assert next(batch for batch in batches if batch)[0].offset() == 0


def test_a_reader_at_the_end_is_not_stalled(
    location: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_STALL_SECONDS", 0.5)
    stalled: list[list[Partition]] = []
    where = Partition(TOPIC, 0)
    with running(data, location) as broker:
        cluster = Cluster(KafkaSettings(bootstrap=broker.bootstrap))
        with Reader(cluster, {where: 295}, on_stall=stalled.append) as reader:
            batches = reader.batches()
            assert sum(len(next(batches)) for _ in range(20)) == 5
    assert not stalled
