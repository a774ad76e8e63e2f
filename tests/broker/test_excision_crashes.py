"""kill -9 in the middle of an excision: every record that stays is there, and the rest can go."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.broker.excision.process import WORKER
from headrace.kafka import ExcisionLost, follow_excision, start_excision
from headrace.log.excision import Wanted
from tests.broker.erasing import (
    TOPIC,
    cluster_at,
    customer,
    erase,
    expected,
    read,
    write,
)
from tests.broker.process import BrokerProcess

RECORDS = 3500
ERASED = [customer(2)]
KILLS = 2


def test_a_killed_broker_leaves_old_or_new_segments_and_the_next_run_finishes(
    tmp_path: Path,
) -> None:
    rng = random.Random(4)
    data = tmp_path / "data"
    broker = BrokerProcess(data, "--set", "segment_bytes=4 KiB")
    stays = expected(RECORDS, ERASED)
    kept = set(stays)
    with broker.running():
        write(broker.bootstrap, RECORDS)
        for _ in range(KILLS):
            start_excision(cluster_at(broker.bootstrap), TOPIC, keys=ERASED)
            deadline = time.monotonic() + 30
            # Once the first files wait to be swapped in, any moment is as good as another.
            while not any(data.rglob("*.rewritten")) and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.2))
            broker.kill()
            broker.start()
            found = read(broker.bootstrap)
            assert [each for each in found if each in kept] == stays
            assert not any(data.rglob("*.rewritten"))
        receipt = erase(broker.bootstrap, *ERASED)
        assert receipt["check"]["passed"]
        assert read(broker.bootstrap) == stays


def test_whoever_follows_is_told_that_the_broker_has_gone(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    with broker.running():
        write(broker.bootstrap, 10)
        cluster = cluster_at(broker.bootstrap)
        job = start_excision(cluster, TOPIC, keys=ERASED, dry_run=True)
        broker.kill()
        with pytest.raises(ExcisionLost, match="run the same command again"):
            list(follow_excision(cluster, job))
        broker.start()


def test_a_worker_whose_broker_is_gone_ends_without_a_word(tmp_path: Path) -> None:
    segment = tmp_path / "segment"
    segment.touch()
    worker = subprocess.Popen(
        [sys.executable, "-m", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    assert worker.stderr is not None
    with worker, worker.stdin:
        worker.stdout.close()
        introduction = {**Wanted(keys=[b"key"], headers=[]).as_json(), "tag": "tag"}
        worker.stdin.write(json.dumps(introduction) + "\n")
        worker.stdin.write(json.dumps(["find", [str(segment), 0, 0, 0]]) + "\n")
        worker.stdin.flush()
        assert worker.wait(30) == 1
        assert worker.stderr.read() == ""
