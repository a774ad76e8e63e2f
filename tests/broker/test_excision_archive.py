"""Erasing what has left the local disk for the archive."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Broker
from headrace.kafka import ExcisionRefused
from tests.broker.erasing import (
    TOPIC,
    create,
    customer,
    erase,
    expected,
    files_with,
    read,
    secret,
    write,
)

ERASED = [customer(3)]
SETTINGS: dict[str, Any] = {
    "segment_bytes": 4096,
    "archive_interval_ms": 50,
    "retention_check_ms": 50,
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    path.mkdir()
    return path


@pytest.fixture
def broker(archive: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker that keeps next to nothing on its own disk."""
    with Broker(tmp_path / "data", archive=str(archive), **SETTINGS) as running:
        create(running.bootstrap, remote_storage_enable="true", local_retention_bytes="5000")
        yield running


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def local_segments(broker: Broker) -> list[Path]:
    return sorted((broker.data / f"{TOPIC}-0").glob("*.log"))


def test_archived_objects_are_replaced_and_the_old_ones_go(broker: Broker, archive: Path) -> None:
    write(broker.bootstrap, 700)
    eventually(lambda: len(local_segments(broker)) <= 3)
    assert len(files_with(archive, customer(3))) > 3
    # Brings segments back into the cache, which has to forget them.
    assert len(read(broker.bootstrap)) == 700

    receipt = erase(broker.bootstrap, *ERASED)
    assert receipt["records"] == 100
    assert receipt["check"]["passed"]
    replaced = [each for each in receipt["files"] if each["archived"]]
    assert len(replaced) > 3
    assert all(not (archive / each["before"]).exists() for each in replaced)
    assert all((archive / each["after"]).exists() for each in replaced)
    for directory in (archive, broker.data):
        assert files_with(directory, customer(3)) == []
        assert files_with(directory, secret(3)) == []
    assert read(broker.bootstrap) == expected(700, ERASED)

    write(broker.bootstrap, 280, first=700)
    assert read(broker.bootstrap)[-1] == (979, secret(979))


def test_an_archive_that_is_gone_is_a_reason_to_change_nothing(
    broker: Broker, archive: Path, tmp_path: Path
) -> None:
    write(broker.bootstrap, 700)
    eventually(lambda: len(local_segments(broker)) <= 3)
    archive.rename(tmp_path / "elsewhere")
    archive.write_text("in the way")
    before = {path: path.read_bytes() for path in local_segments(broker)}
    with pytest.raises(ExcisionRefused, match="archive"):
        erase(broker.bootstrap, *ERASED)
    after = {path: path.read_bytes() for path in local_segments(broker)}
    # Retention goes on meanwhile.
    assert all(after[path] == before[path] for path in before.keys() & after.keys())
    archive.unlink()
    (tmp_path / "elsewhere").rename(archive)
