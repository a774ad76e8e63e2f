"""Random tables and transactions on SQLite, with a capture that is killed again and again."""

import random
import sqlite3
from pathlib import Path

import pytest

from tests.capture.oracle import FLOAT, TEXT, WHOLE, Dialect, Oracle, binary
from tests.capture.sqlite.conftest import File
from tests.clusters import Cluster, on_one_cluster


@on_one_cluster
@pytest.mark.timeout(1800)
def test_topics_lead_to_the_tables_whatever_happens(
    cluster: Cluster, tmp_path: Path, fresh_name: str, pytestconfig: pytest.Config
) -> None:
    for number in range(pytestconfig.getoption("--examples")):
        seed = random.randrange(10**6)
        print(f"seed {seed}")
        path = tmp_path / f"shop{number}.db"
        file = File(path, random.Random(seed).choice(("wal", "delete")))

        def connect(path: Path = path) -> sqlite3.Connection:
            return sqlite3.connect(path, timeout=60)

        dialect = Dialect(
            kinds=(WHOLE, TEXT, FLOAT, binary("BLOB")),
            connect=connect,
            violated=sqlite3.IntegrityError,
            schema="main",
            mark="?",
            # A second one would wait for the first, for ever.
            clients=1,
            # SQLite refuses to drop a column that a trigger names.
            loses_columns=False,
        )
        Oracle(dialect, file.url, cluster, f"{fresh_name}-{number}", seed).run()
        file.close()
