"""`headrace groups watch` on both clusters: once, on and on, with alarms, on any output."""

import io
import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console

from headrace.cli.lag_screen import LagScreen
from headrace.cli.lag_view import Lines
from headrace.kafka import GroupLag, Isolation, LagSample, Partition, PartitionLag
from headrace.kafka.lag_history import LagHistory
from tests.cli.conftest import Headrace, process
from tests.clusters import Cluster, headrace_cluster

DAY = 24 * 3600_000


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for the history that is not the developer's own."""
    monkeypatch.setenv("HEADRACE_LAG_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


@pytest.fixture
def behind(cluster: Cluster, topic: str, group: str) -> str:
    """A group that has read 4 of 10 records."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(10):
        producer.produce(topic, str(number))
    assert producer.flush(20) == 0
    commit(cluster, group, topic, 4)
    return group


@pytest.fixture
def hook() -> Iterator[tuple[str, list[Any]]]:
    """A webhook: its address, and what it has received."""
    received: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        log_message = staticmethod(lambda *arguments: None)  # type: ignore[assignment]

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", received
        server.shutdown()
        thread.join()


def test_programs_get_one_line_per_group(on_cluster: Headrace, behind: str, topic: str):
    result = on_cluster("groups", "watch", behind, "--once", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    shown = json.loads(result.stdout)
    assert (shown["group"], shown["state"], shown["protocol"]) == (behind, "empty", "classic")
    assert (shown["lag"], shown["lost"], shown["isolation"]) == (6, 0, "read_committed")
    assert shown["consumed_per_second"] is None
    (partition,) = shown["partitions"]
    assert 0 < partition.pop("time_lag_ms") == shown["time_lag_ms"] < 60_000
    assert partition == {
        "topic": topic,
        "partition": 0,
        "committed": 4,
        "earliest": 0,
        "latest": 10,
        "lag": 6,
        "lost": 0,
    }


def test_people_get_a_table_of_groups_and_partitions(on_cluster: Headrace, behind: str, topic: str):
    result = on_cluster("groups", "watch", behind, "--once", "--no-time", "--no-history")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0][:4] == ["GROUP", "STATE", "KIND", "LAG"]
    assert lines[1][:4] == [behind, "empty", "classic", "6"]
    assert lines[-1] == [behind, topic, "0", "4", "10", "6", "-", "0"]


def test_what_was_measured_is_kept_per_cluster(on_cluster: Headrace, behind: str, state: Path):
    on_cluster("groups", "watch", behind, "--once")
    (file,) = state.glob("lag-*.sqlite3")
    name = file.stem.removeprefix("lag-")
    with LagHistory.open(state, name, retention_ms=DAY) as history:
        (row,) = history.rows(behind)
    assert (row.records, row.committed, row.latest) == (6, 4, 10)


def test_without_history_nothing_is_kept(on_cluster: Headrace, behind: str, state: Path):
    on_cluster("groups", "watch", behind, "--once", "--no-history")
    assert not state.exists()


def test_a_history_that_cannot_be_kept_is_one_clear_line(
    on_cluster: Headrace, behind: str, state: Path
):
    state.write_text("in the way")
    result = on_cluster("groups", "watch", behind, "--once")
    assert result.exit_code == 1
    assert result.stderr.startswith("headrace: Cannot keep the history of lag in ")
    assert result.stderr.count("\n") == 1


def test_a_group_that_is_not_there_is_said_to_be_missing(on_cluster: Headrace, group: str):
    for options in ((), ("--once",)):
        result = on_cluster("groups", "watch", group, *options)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"headrace: There is no consumer group {group}.")


def test_it_follows_until_ctrl_c_and_knows_the_pace_by_then(
    cluster: Cluster, behind: str, topic: str
):
    arguments = ("groups", "watch", behind, "--json", "--interval", "200ms")
    with process(*arguments, "-b", cluster.bootstrap) as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["lag"] == 6
        commit(cluster, behind, topic, 9)
        while (shown := json.loads(running.stdout.readline()))["lag"] == 6:
            pass
        assert shown["lag"] == 1
        assert shown["consumed_per_second"] > 0
        assert shown["produced_per_second"] == 0
        assert shown["seconds_to_catch_up"] > 0
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=20)
    assert (running.returncode, errors) == (0, "")


def test_it_outlives_a_broker_s_restart_and_says_so_once(tmp_path: Path):
    data = ("--data", str(tmp_path / "data"))
    arguments = ("groups", "watch", "billing", "--json", "--interval", "100ms")
    with ExitStack() as resources:
        with headrace_cluster(*data) as cluster:
            producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            producer.produce("orders", b"x")
            assert producer.flush(20) == 0
            commit(cluster, "billing", "orders", 0)
            watching = process(*arguments, "-b", cluster.bootstrap)
            running = resources.enter_context(watching)
            assert running.stdout is not None
            assert running.stderr is not None
            assert json.loads(running.stdout.readline())["lag"] == 1
        assert "lag is not measured: Cannot reach a Kafka cluster" in running.stderr.readline()
        with headrace_cluster(*data, "--port", str(cluster.port)):
            assert "lag is measured again" in running.stderr.readline()
            running.send_signal(signal.SIGINT)
            _, errors = running.communicate(timeout=20)
    assert (running.returncode, errors) == (0, "")


def test_alarms_reach_a_webhook_and_a_command(
    cluster: Cluster,
    behind: str,
    topic: str,
    hook: tuple[str, list[Any]],
    tmp_path: Path,
):
    address, received = hook
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).open('a').write(sys.stdin.read())"
    Path("headrace.toml").write_text(
        f"""
        [[lag.alerts]]
        group = "{behind}"
        topic = "{topic}"
        max_records = 5
        webhook = "{address}"
        command = {json.dumps([sys.executable, "-c", code, str(tmp_path / "alerts")])}
        """
    )
    arguments = ("groups", "watch", behind, "--alerts", "--json", "--interval", "200ms")
    with process(*arguments, "-b", cluster.bootstrap) as running:
        assert running.stderr is not None
        assert f"lag alert firing: group {behind} is 6 records" in running.stderr.readline()
        commit(cluster, behind, topic, 10)
        assert f"lag alert recovered: group {behind} is 0 records" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=20)
    assert running.returncode == 0
    assert [(each["state"], each["records"]) for each in received] == [
        ("firing", 6),
        ("recovered", 0),
    ]
    lines = (tmp_path / "alerts").read_text().splitlines()
    assert [json.loads(line) for line in lines] == received


def test_a_terminal_gets_a_screen_that_is_rewritten_in_place():
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=140, color_system=None)
    partition = PartitionLag(Partition("orders", 3), 4, 2, 1200, 1196, 61_000)
    group = GroupLag("billing", "stable", "consumer", Isolation.READ_COMMITTED, (partition,))
    with LagHistory.in_memory(retention_ms=DAY) as history:
        history.add(LagSample(1_700_000_000_000, (group,)))
        with LagScreen(Lines(history), in_detail=True, console=console) as screen:
            screen.show(LagSample(1_700_000_000_000, (group,)))
            screen.show(LagSample(1_700_000_010_000, ()))
    shown = output.getvalue()
    assert "billing  stable  consumer  1,196  1m 01s" in shown
    assert "█" in shown
    assert "billing  orders          3          4   1,200  1,196  1m 01s     0" in shown
    assert "There are no consumer groups yet." in shown


def test_a_narrow_terminal_goes_without_the_chart_rather_than_with_half_of_everything():
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, color_system=None)
    name = "the-warehouse-in-the-north"
    group = GroupLag(name, "stable", "consumer", Isolation.READ_COMMITTED, ())
    with (
        LagHistory.in_memory(retention_ms=DAY) as history,
        LagScreen(Lines(history), in_detail=False, console=console) as screen,
    ):
        screen.show(LagSample(1_700_000_000_000, (group,)))
    shown = output.getvalue()
    assert "…" not in shown
    assert "CATCHES UP  LOST" in shown
    assert "LAST HOUR" not in shown
