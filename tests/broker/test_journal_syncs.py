"""What a broker remembers besides records reaches the disk when its policy says so."""

from pathlib import Path
from typing import Any

import pytest

from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.handlers.topics import journal_failure
from headrace.broker.server import Server
from headrace.settings import BrokerSettings
from tests.broker.raw_client import until


def server(data: Path, **settings: Any) -> Server:
    return Server(BrokerSettings(data=data, listen="127.0.0.1:0", **settings))


def commit(started: Server) -> None:
    where = TopicPartition("orders", 0)
    started.core.offsets.commit("billing", {where: Committed(7, -1, "", 0)})


async def test_journals_are_synced_at_intervals(tmp_path: Path) -> None:
    started = server(tmp_path / "data", flush="interval", flush_interval_ms=10)
    await started.start()
    commit(started)
    assert started.core.offsets.journal.dirty
    await until(lambda: not started.core.offsets.journal.dirty)
    await started.stop()


async def test_journals_are_synced_at_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.housekeeping.CHECKPOINT_SECONDS", 0.01)
    started = server(tmp_path / "data", flush="os")
    await started.start()
    commit(started)
    await until(lambda: not started.core.offsets.journal.dirty)
    await started.stop()


@pytest.mark.parametrize("flush", ["ack", "interval", "os"])
async def test_a_topic_is_on_the_disk_before_anybody_writes_to_it(
    tmp_path: Path, flush: str
) -> None:
    started = server(tmp_path / "data", flush=flush)
    await started.start()
    started.core.topics.create("orders", 1, {"flush": "ack"})
    syncs = started.core.commits.syncs
    assert await journal_failure(started.core) is None
    assert started.core.commits.syncs > syncs
    assert not started.core.topics.journal.dirty
    await started.stop()
