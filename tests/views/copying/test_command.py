"""`headrace sink` as people run it, and as it is killed."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.settings import KafkaSettings
from tests.clusters import Cluster
from tests.conftest import TopicFactory
from tests.views.copying.test_copy import rows, send

SCHEMA = "id bigint, name string, price double"


def sink(*words: str, cluster: Cluster, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace", "sink", *words],
        env={**os.environ, "HEADRACE_KAFKA_BOOTSTRAP": cluster.bootstrap},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_topic_is_copied_and_what_was_done_is_said(
    cluster: Cluster, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic, kafka = new_topic(3), KafkaSettings(bootstrap=cluster.bootstrap)
    send(kafka, topic, [(n, {"id": n, "name": "x", "price": 1}) for n in range(100)])
    send(kafka, topic, [(n, None) for n in range(90)])
    words = ("--to", "sqlite:///shop.db", "--table", "orders", "--key", "id", "--schema", SCHEMA)
    done = sink(topic, *words, "--once", cluster=cluster, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{topic}-to-orders: finished, 190 rows" in done.stderr
    assert rows(tmp_path / "shop.db") == [(n, "x", 1.0) for n in range(90, 100)]


def test_sinks_of_the_settings_run_side_by_side(
    cluster: Cluster, new_topic: TopicFactory, tmp_path: Path
) -> None:
    first, second = new_topic(), new_topic()
    kafka = KafkaSettings(bootstrap=cluster.bootstrap)
    send(kafka, first, [(None, {"id": 1, "name": "a", "price": 1})])
    send(kafka, second, [(None, {"id": 2, "name": "b", "price": 2})])
    (tmp_path / "headrace.toml").write_text(
        "\n".join(
            f'[[sink]]\ntopic = "{each}"\nto = "sqlite:///shop.db"\nschema = "{SCHEMA}"\n'
            f'table = "{table}"\n'
            for each, table in ((first, "one"), (second, "two"))
        )
    )
    done = sink("--once", cluster=cluster, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "shop.db", "one") == [(1, "a", 1.0)]
    assert rows(tmp_path / "shop.db", "two") == [(2, "b", 2.0)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a topic, or write [[sink]] into headrace.toml"),
        (("orders",), "a sink needs to"),
        (("--to", "sqlite:///shop.db"), "needs a topic"),
        (("orders", "--to", "oracle://host/db"), "names no store"),
        (("orders", "--to", "sqlite:///a.db", "--set", "bach=5"), "did you mean batch?"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = sink(*words, cluster=Cluster("none", "127.0.0.1:1"), cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_sink_that_is_killed_again_and_again_ends_with_the_last_state(
    cluster: Cluster, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic, path = new_topic(3), tmp_path / "shop.db"
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    state: dict[int, Any] = {}

    def change(count: int) -> None:
        for number in range(count):
            key = chance.randrange(300)
            row = None if chance.random() < 0.3 else {"id": key, "name": f"{number}", "price": 0.5}
            producer.produce(topic, None if row is None else json.dumps(row), str(key))
            if row is None:
                state.pop(key, None)
            else:
                state[key] = (key, row["name"], 0.5)
        assert producer.flush(20) == 0

    command = [
        *(sys.executable, "-m", "headrace", "sink", topic, "--bootstrap", cluster.bootstrap),
        *("--to", f"sqlite:///{path}", "--table", "orders", "--key", "id"),
        *("--schema", SCHEMA, "--set", "batch=20"),
    ]
    change(3000)
    for _ in range(4):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        # Not for something to happen: whatever it is doing by then is a good moment.
        time.sleep(chance.uniform(0.8, 2.0))
        change(500)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=20)
    done = subprocess.run([*command, "--once"], check=False, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert rows(path) == [state[key] for key in sorted(state)]
    connection = sqlite3.connect(path)
    positions = connection.execute(
        "SELECT place, epoch, version FROM headrace_positions ORDER BY place"
    ).fetchall()
    connection.close()
    assert [place for place, _, _ in positions] == [f"{topic}-{number}" for number in range(3)]
    assert all(epoch >= 1 and version == 1 for _, epoch, version in positions)
