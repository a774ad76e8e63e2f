"""A broker whose disk is full: the capture says so, and goes on when there is room again."""

import errno
import threading
from functools import partial
from typing import Any

import pytest

from headrace import Broker
from headrace.broker.server import Server
from headrace.capture import Capture, Condition
from headrace.capture.progress import CaptureProgress
from headrace.log.disk import SYSTEM_DISK
from tests.capture.conftest import Database
from tests.capture.replaying import eventually, replayed, rows_of, values_of
from tests.capture.starting import capture, following


class CrowdedDisk:
    """The disk of the system, which has no room while `full` is set."""

    def __init__(self) -> None:
        self.full = threading.Event()

    def pwrite(self, descriptor: int, data: Any, position: int, /) -> int:
        if self.full.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")
        return SYSTEM_DISK.pwrite(descriptor, data, position)

    def __getattr__(self, name: str) -> Any:
        return getattr(SYSTEM_DISK, name)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> CrowdedDisk:
    """The disk of the brokers that the test starts."""
    found = CrowdedDisk()
    monkeypatch.setattr("headrace.broker.embedded.Server", partial(Server, disk=found))
    # A person would wait longer before saying something.
    monkeypatch.setattr("headrace.capture.delivery._ATTEMPT_SECONDS", 1.0)
    return found


def waits(progress: CaptureProgress) -> bool:
    return progress.condition is Condition.WAITING and "its disk is full" in progress.failure


def test_what_changes_meanwhile_is_told_once_there_is_room(
    disk: CrowdedDisk, database: Database
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    database.run("INSERT INTO t SELECT i, i FROM generate_series(1, 100) i")
    with Broker(flush="os") as broker, capture(database.url, broker, "shop") as running:
        eventually(lambda: following(running))
        disk.full.set()
        # The database does not wait for the log.
        database.run("UPDATE t SET n = n + 1 WHERE id % 3 = 0")
        eventually(lambda: waits(running.progress))
        database.run("DELETE FROM t WHERE id > 90")
        disk.full.clear()
        wanted = rows_of(database, "t")
        eventually(lambda: replayed(broker.bootstrap, "shop.public.t") == wanted)
        eventually(lambda: running.progress.condition is Condition.FOLLOWING)
        assert running.progress.failure == ""
        told = [each["op"] for each in values_of(broker.bootstrap, "shop.public.t") if each]
    assert (told.count("u"), told.count("d")) == (33, 10), "a change is told twice, or not at all"


def test_a_capture_that_waits_can_be_ended_and_goes_on_later(
    disk: CrowdedDisk, database: Database
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    with Broker(flush="os") as broker:
        with capture(database.url, broker, "shop") as running:
            eventually(lambda: following(running))
            disk.full.set()
            database.run("INSERT INTO t VALUES (1, 1)")
            eventually(lambda: waits(running.progress))
        disk.full.clear()
        again: Capture = capture(database.url, broker, "shop")
        with again:
            eventually(
                lambda: replayed(broker.bootstrap, "shop.public.t") == rows_of(database, "t")
            )
