"""kill -9 in the middle of an excision: every record that stays is there, and the rest can go."""

import random
import time
from pathlib import Path

from headrace.kafka import start_excision
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
