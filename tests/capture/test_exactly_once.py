"""A capture that is killed with -9, again and again, while others write."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import groupby

import pytest

from tests.capture.conftest import Database
from tests.capture.replaying import eventually, records_of, replayed, rows_of
from tests.capture.workload import TABLES, Workload, make_tables
from tests.clusters import Cluster


class CaptureProcess:
    """`headrace capture` in a process of its own, which can be killed."""

    def __init__(self, database: Database, cluster: Cluster, to: str, *options: str) -> None:
        self._command = [
            *(sys.executable, "-m", "headrace", "capture", database.url),
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


def check_ledger(bootstrap: str, topic: str) -> None:
    """Every transaction is told once, whole, in one piece and in the order of commits."""
    events = [json.loads(each.value() or b"null") for each in records_of(bootstrap, topic)]
    rows = [event["after"] for event in events if event["op"] == "c"]
    ids = [row["id"] for row in rows]
    assert len(ids) == len(set(ids)), "a row is told twice"
    pieces = [(batch, list(piece)) for batch, piece in groupby(rows, lambda row: row["batch"])]
    assert len(pieces) == len({batch for batch, _ in pieces}), "a transaction is told in pieces"
    for batch, piece in pieces:
        assert [row["place"] for row in piece] == list(range(piece[0]["size"])), batch
    # The time of a commit is taken a moment before its place in the log is.
    # The last commit before each is not known to a capture that has just started.
    sequences = [json.loads(event["source"]["sequence"]) for event in events if event["op"] == "c"]
    commits = [int(last) for last, _ in sequences if last is not None]
    assert commits == sorted(commits), "transactions are told out of order"


def await_equal(cluster: Cluster, topic: str, database: Database, table: str) -> None:
    """Wait until a topic leads to what is in a table, and show how they differ if it does not."""
    wanted = rows_of(database, table)
    try:
        eventually(lambda: replayed(cluster.bootstrap, topic) == wanted, 60)
    except AssertionError:
        found = replayed(cluster.bootstrap, topic)
        differences = {
            key: (found.get(key), wanted.get(key))
            for key in found.keys() | wanted.keys()
            if found.get(key) != wanted.get(key)
        }
        raise AssertionError(f"{topic} differs: {str(differences)[:2000]}") from None


@pytest.mark.timeout(180)
def test_killed_and_started_again_it_neither_loses_nor_repeats(
    cluster: Cluster, database: Database, fresh_name: str
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    make_tables(database, rows=300)
    with CaptureProcess(database, cluster, fresh_name, "chunk=40") as process:
        with Workload(database, seed) as workload:
            for _ in range(4):
                process.start()
                # Not for something to happen: whatever it is doing by then is a good moment.
                time.sleep(chance.uniform(0.8, 2.0))
                process.end(signal.SIGKILL)
        process.start()
        for table in (*TABLES, "ledger"):
            await_equal(cluster, f"{fresh_name}.public.{table}", database, table)
        assert "Traceback" not in process.end(signal.SIGTERM)
    assert workload.transactions > 50
    check_ledger(cluster.bootstrap, f"{fresh_name}.public.ledger")
