"""Captures in processes of their own, which are killed with -9 while others write."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import groupby
from typing import Any

from tests.capture.replaying import Rows, await_equal, records_of, replayed
from tests.capture.workload import Client, writing
from tests.clusters import Cluster


class CaptureProcess:
    """`headrace capture` in a process of its own."""

    def __init__(self, url: str, cluster: Cluster, to: str, *options: str) -> None:
        self._command = [
            *(sys.executable, "-m", "headrace", "capture", url),
            *("--tables", "*", "--to", to, "--bootstrap", cluster.bootstrap),
            *("--set", "heartbeat=200ms", "--set", "discovery=200ms"),
            *(word for option in options for word in ("--set", option)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "CaptureProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            print(self._said())

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE)

    def end(self, how: signal.Signals) -> str:
        """End it, and give what it said."""
        assert self._process is not None
        assert self._process.poll() is None, self._said()
        os.kill(self._process.pid, how)
        return self._said()

    def _said(self) -> str:
        assert self._process is not None
        return self._process.communicate(timeout=60)[1].decode()


def kill_and_compare(
    url: str,
    cluster: Cluster,
    to: str,
    client: Client,
    *,
    kills: int,
    topics: Mapping[str, Callable[[], Rows]],
) -> None:
    """Kill a capture at random while clients write; then its topics lead to the rows."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with CaptureProcess(url, cluster, to, "chunk=40") as process:
        with writing(client, seed) as committed:
            for _ in range(kills):
                process.start()
                # Not for something to happen: whatever it is doing by then is a good moment.
                time.sleep(chance.uniform(0.7, 1.8))
                process.end(signal.SIGKILL)
        process.start()
        for topic, rows in topics.items():
            await_equal(partial(replayed, cluster.bootstrap, topic), rows(), topic)
        assert "Traceback" not in process.end(signal.SIGTERM)
    assert sum(committed) > 20


def check_ledger(cluster: Cluster, topic: str) -> list[Any]:
    """Every transaction is told once, whole and in one piece; gives the events of its rows."""
    events = [json.loads(each.value() or b"null") for each in records_of(cluster.bootstrap, topic)]
    inserts = [event for event in events if event["op"] == "c"]
    rows = [event["after"] for event in inserts]
    ids = [row["id"] for row in rows]
    assert len(ids) == len(set(ids)), "a row is told twice"
    pieces = [(batch, list(piece)) for batch, piece in groupby(rows, lambda row: row["batch"])]
    assert len(pieces) == len({batch for batch, _ in pieces}), "a transaction is told in pieces"
    for batch, piece in pieces:
        assert [row["place"] for row in piece] == list(range(piece[0]["size"])), batch
    return inserts
