"""Feeds over HTTP: snapshots, changes, resuming, filters, results, and servers that die."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.settings import Settings
from headrace.views import Replica, ViewDescription, Views, ViewServer
from headrace.views.client import FeedEvent
from tests.clusters import Cluster, on_one_cluster
from tests.views.serving.conftest import ServerFactory, Written
from tests.views.serving.feeds import changes_of, until


@pytest.mark.partitions(2)
def test_a_feed_is_a_snapshot_and_then_every_change(written: Written, users: Views):
    after = written.put(a={"id": "a", "n": 1}, b={"id": "b", "n": 2})
    users.count("users", after=after)
    events = users.follow("users")
    snapshot, up_to_date = until(events, "up-to-date")
    assert [each["key"] for each in snapshot.data["rows"]] == ["a", "b"]
    assert snapshot.token == up_to_date.token
    written.put(a={"id": "a", "n": 3})
    assert changes_of(until(events, "changes")[-1]) == [("update", "a", {"id": "a", "n": 3})]
    written.put(b=None)
    assert changes_of(until(events, "changes")[-1]) == [("delete", "b", None)]


@on_one_cluster
def test_rows_that_enter_or_leave_a_filter_are_inserted_or_deleted(written: Written, users: Views):
    after = written.put(a={"id": "a", "n": 1}, b={"id": "b", "n": 9})
    users.count("users", after=after)
    events = users.follow("users", where="n > 5")
    assert [each["key"] for each in until(events, "up-to-date")[0].data["rows"]] == ["b"]
    written.put(a={"id": "a", "n": 6})
    assert changes_of(until(events, "changes")[-1]) == [("insert", "a", {"id": "a", "n": 6})]
    written.put(b={"id": "b", "n": 2})
    assert changes_of(until(events, "changes")[-1]) == [("delete", "b", None)]


@on_one_cluster
def test_a_feed_of_a_key_is_of_nothing_else(written: Written, users: Views):
    after = written.put(a={"id": "a"}, b={"id": "b"})
    users.count("users", after=after)
    events = users.follow("users", key="a")
    assert len(until(events, "up-to-date")[0].data["rows"]) == 1
    written.put(b={"id": "b", "n": 1})
    written.put(a={"id": "a", "n": 1})
    assert changes_of(until(events, "changes")[-1]) == [("update", "a", {"id": "a", "n": 1})]


@on_one_cluster
def test_a_reader_goes_on_from_its_token(written: Written, users: Views):
    after = written.put(a={"id": "a"})
    token = users.rows("users", after=after).token
    after = written.put(b={"id": "b"}, a=None)
    users.count("users", after=after)
    events = users.follow("users", since=token)
    told = until(events, "up-to-date")
    assert [each.name for each in told] == ["changes", "up-to-date"]
    assert sorted(changes_of(told[0])) == [("delete", "a", None), ("insert", "b", {"id": "b"})]
    refetched = until(users.follow("users", since="0123456789ab-7"), "up-to-date")
    assert [each.name for each in refetched] == ["must-refetch", "snapshot", "up-to-date"]


@on_one_cluster
def test_a_long_poll_tells_the_same(written: Written, users: Views):
    after = written.put(a={"id": "a"})
    users.count("users", after=after)

    def poll(**given: str) -> dict[str, Any]:
        query = urllib.parse.urlencode(given)
        with urllib.request.urlopen(f"{users._url}/feeds/users/poll?{query}") as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    first = poll()
    assert [each["event"] for each in first["events"]] == ["snapshot"]
    assert first["up_to_date"]
    nothing = poll(since=first["token"], wait="100ms")
    assert nothing["events"] == []
    assert nothing["token"] == first["token"]
    later = threading.Timer(0.3, lambda: written.put(b={"id": "b"}))
    later.start()
    second = poll(since=first["token"], wait="20s")
    assert second["events"][0]["data"]["changes"][0]["key"] == "b"
    later.join()


@on_one_cluster
def test_a_subscriber_of_a_result_is_told_when_it_is_another_one(written: Written, users: Views):
    after = written.put(a={"id": "a", "n": 1}, b={"id": "b", "n": 2}, c={"id": "c", "n": 3})
    users.count("users", after=after)
    top = users.follow_result("users", order="n desc", limit=2)
    assert [each["key"] for each in next(top).data["rows"]] == ["c", "b"]
    count = users.follow_result("users", where="n > 1", count=True)
    assert next(count).data == {"count": 2}
    users.count("users", after=written.put(a={"id": "a", "n": 0}))
    written.put(a={"id": "a", "n": 7})
    assert [each["key"] for each in next(top).data["rows"]] == ["a", "c"]
    assert next(count).data == {"count": 3}


@on_one_cluster
def test_a_silent_feed_says_that_it_is_there(written: Written, users: Views):
    users.count("users", after=written.put(a={"id": "a"}))
    events = users.follow("users")
    until(events, "up-to-date")
    began = time.monotonic()
    assert next(events).name == "up-to-date"
    assert time.monotonic() - began < 5


@on_one_cluster
def test_a_reader_that_does_not_read_is_squashed(written: Written, users: Views):
    users.count("users", after=written.put(k0={"id": "k0", "n": -1}))
    with _slow(users) as slow:
        _flood(written, keys=1, rounds=16)
        after = written.put(k0={"id": "k0", "n": "last"})
        users.count("users", after=after, timeout="60s")
        heard = _read_until(slow, b'"n": "last"')
    assert b'"squashed":true' in heard
    assert heard.count(b'"op"') < 8_000


@on_one_cluster
def test_readers_that_do_not_read_cost_no_more_the_longer_they_do_not(
    cluster: Cluster, written: Written, tmp_path: Path
):
    """With what they miss in memory they would cost two gigabytes in the end."""
    crowd, allowed = 50, 100 << 20
    after = written.put(k0={"id": "k0", "n": -1})
    with _server(cluster, written, tmp_path) as (process, views), ExitStack() as open_feeds:
        views.count("users", after=after)
        slow = [open_feeds.enter_context(_slow(views)) for _ in range(crowd)]
        views.count("users", after=_flood(written, keys=200, rounds=4), timeout="60s")
        before = _memory(process.pid)
        views.count("users", after=_flood(written, keys=200, rounds=40), timeout="60s")
        assert _memory(process.pid) - before < allowed
        views.count("users", after=written.put(k7={"id": "k7", "n": "last"}), timeout="60s")
        for each in slow[::25]:
            assert b'"squashed":true' in _read_until(each, b'"n": "last"')


def _slow(views: Views) -> socket.socket:
    """A subscriber that has heard that it is up to date, and reads no further."""
    host, port = views._url.removeprefix("http://").split(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
    connection.connect((host, int(port)))
    connection.sendall(b"GET /feeds/users HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    _read_until(connection, b"up-to-date")
    return connection


def _flood(written: Written, *, keys: int, rounds: int) -> str:
    """Write 500 rows of 2 kB in each round, of so many keys; the position of the last one."""
    after = ""
    for start in range(0, rounds * 500, 500):
        for number in range(start, start + 499):
            row = _row(number, keys)
            written.producer.produce(written.topic, json.dumps(row), row["id"])
        last = _row(start + 499, keys)
        after = written.put(**{last["id"]: last})
    return after


def _row(number: int, keys: int) -> dict[str, Any]:
    return {"id": f"k{number % keys}", "n": number, "filler": "x" * 2_000}


def _memory(process_id: int) -> int:
    """The bytes of memory that a process has in use."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("it is gone")


def _read_until(connection: socket.socket, wanted: bytes) -> bytes:
    connection.settimeout(60)
    heard = bytearray()
    while wanted not in heard[-200_000:]:
        piece = connection.recv(1 << 20)
        assert piece, "the feed ended"
        heard += piece
    return bytes(heard)


@on_one_cluster
def test_a_server_that_is_killed_costs_subscribers_nothing(
    cluster: Cluster, written: Written, tmp_path: Path, settings: Settings
):
    command, views = _command(cluster, written, tmp_path)
    written.put(a={"id": "a", "n": 0})
    process = _started(command, views)
    refetched: list[str] = []

    class Watching(Replica):
        def apply(self, event: FeedEvent) -> None:
            if event.name == "must-refetch":
                refetched.append(event.data["reason"])
            super().apply(event)

    try:
        with Watching(views, "users") as replica:
            for number in range(1, 4):
                for each in range(50):
                    written.put(a={"id": "a", "n": number}, **{f"r{each}": {"id": f"r{each}"}})
                process.send_signal(signal.SIGKILL)
                process.wait()
                after = written.put(b={"id": "b", "n": number})
                process = _started(command, views)
                views.count("users", after=after)
                _await(lambda n=number: replica.rows.get("b", {}).get("n") == n)
            rows = {each["id"]: each for each in views.all_rows("users")}
            assert replica.rows == rows
            assert not refetched
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "views" / "users.sqlite").exists()


def _command(cluster: Cluster, written: Written, path: Path) -> tuple[list[str], Views]:
    """What starts a server of the view `users`, and what reads it."""
    port = _free_port()
    command = [
        *(sys.executable, "-m", "headrace", "serve", "--bootstrap", cluster.bootstrap),
        *("--view", f"users={written.topic}", "--key", "id"),
        *("--listen", f"127.0.0.1:{port}", "--directory", str(path / "views")),
    ]
    return command, Views(f"http://127.0.0.1:{port}")


@contextmanager
def _server(
    cluster: Cluster, written: Written, path: Path
) -> "Iterator[tuple[subprocess.Popen[bytes], Views]]":
    command, views = _command(cluster, written, path)
    process = _started(command, views)
    try:
        yield process, views
    finally:
        process.kill()
        process.wait()


def _started(command: list[str], views: Views) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def answers() -> bool:
        assert process.poll() is None, "the server ended"
        try:
            return bool(views.views()[0]["rows"] is not None)
        except (OSError, IndexError):
            return False

    _await(answers)
    return process


def _await(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@on_one_cluster
def test_a_crowd_of_subscribers_misses_nothing(
    written: Written, serving: ServerFactory, settings: Settings
):
    """A small edition of `make bench NAME=feeds`: every subscriber has every change, in order."""
    server = serving(ViewDescription("users", written.topic, ("id",)))
    views = Views(server.url)
    views.count("users", after=written.put(a={"id": "a", "n": -1}))
    crowd, updates = 50, 2_000
    heard: list[list[int]] = [[] for _ in range(crowd)]
    begun = threading.Barrier(crowd + 1)

    def listen(own: list[int]) -> None:
        events = views.follow("users")
        until(events, "up-to-date")
        begun.wait(30)
        for event in events:
            own += [each["row"]["n"] for each in event.data.get("changes", ())]
            if own and own[-1] == updates - 1:
                return

    threads = [threading.Thread(target=listen, args=(own,), daemon=True) for own in heard]
    for each in threads:
        each.start()
    begun.wait(30)
    for start in range(0, updates, 100):
        for number in range(start, start + 100):
            value = json.dumps({"id": "a", "n": number})
            written.producer.produce(written.topic, value, b"a")
        written.producer.flush(20)
        time.sleep(0.02)
    for each in threads:
        each.join(60)
    assert all(own == list(range(updates)) for own in heard)


def test_a_server_ends_though_feeds_are_open(written: Written, settings: Settings):
    view = ViewDescription("users", written.topic, ("id",))
    server = ViewServer(settings, [view], declared=False).start()
    views = Views(server.url)
    views.count("users", after=written.put(a={"id": "a"}))
    events = views.follow("users")
    until(events, "up-to-date")
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 5
