"""`headrace capture`: from the first look at a database to the last trace in it."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.main import app
from tests.capture.conftest import Database
from tests.capture.replaying import eventually, replayed, rows_of, values_of
from tests.capture.servers import PostgresServer
from tests.cli.conftest import Headrace, process
from tests.clusters import HEADRACE, Cluster

pytestmark = pytest.mark.parametrize("cluster", [HEADRACE], indirect=True)


@pytest.fixture
def on_cluster(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Headrace:
    """Runs a command that talks to the cluster, without settings of the surroundings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", cluster.bootstrap)

    def run(*arguments: str, stdin: str | bytes = "") -> Result:
        return CliRunner().invoke(app, arguments, input=stdin)

    return run


def status_of(headrace: Headrace, name: str) -> dict[str, object]:
    found = json.loads(headrace("capture", "status", "--json").stdout)
    return next((each for each in found if each["capture"] == name), {})


def test_a_capture_is_run_looked_at_paused_resumed_and_dropped(
    cluster: Cluster, on_cluster: Headrace, database: Database, fresh_name: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)")
    topic = f"{fresh_name}.public.t"
    command = ("capture", database.url, "-t", "t", "--to", fresh_name, "--set", "heartbeat=200ms")
    with process(*command, "--bootstrap", cluster.bootstrap) as running:
        eventually(lambda: replayed(cluster.bootstrap, topic) == rows_of(database, "t"))
        eventually(lambda: status_of(on_cluster, fresh_name)["condition"] == "following")
        assert fresh_name in on_cluster("capture", "status").stdout

        assert on_cluster("capture", "pause", fresh_name).exit_code == 0
        eventually(lambda: status_of(on_cluster, fresh_name)["condition"] == "paused")
        database.run("UPDATE t SET n = 2")
        assert on_cluster("capture", "resume", fresh_name).exit_code == 0
        eventually(lambda: replayed(cluster.bootstrap, topic) == rows_of(database, "t"))

        assert on_cluster("capture", "snapshot", fresh_name, "t").exit_code == 0
        reads = [each["op"] for each in values_of(cluster.bootstrap, topic)].count("r")
        eventually(
            lambda: [each["op"] for each in values_of(cluster.bootstrap, topic)].count("r") == 2
        )
        assert reads in (1, 2)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
    dropped = on_cluster("capture", "drop", fresh_name, "--url", database.url)
    assert "replication slot" in dropped.stderr
    assert "publication" in dropped.stderr
    assert database.run(
        "SELECT (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_replication_slots"
        " WHERE database = current_database())"
    ) == [(0, 0)]
    assert status_of(on_cluster, fresh_name) == {}


def test_a_table_that_is_not_captured_is_not_read(on_cluster: Headrace, fresh_name: str) -> None:
    result = on_cluster("capture", "snapshot", fresh_name, "t")
    assert result.exit_code == 1
    assert f"No capture {fresh_name} has run" in result.stderr


@pytest.fixture(scope="module")
def unready() -> Iterator[PostgresServer]:
    """A server that nobody has prepared for logical replication."""
    server = PostgresServer(wal_level="replica")
    try:
        server.start()
        yield server
    finally:
        server.remove()


def test_all_that_an_administrator_must_do_is_said_at_once(
    on_cluster: Headrace, unready: PostgresServer
) -> None:
    with unready.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE clerk LOGIN")
        cursor.execute("CREATE TABLE t (id int); CREATE TABLE u (id int PRIMARY KEY)")
    url = unready.url(user="clerk")
    result = on_cluster("capture", url, "--tables", "t,u", "--to", "x")
    assert result.exit_code == 1
    for remedy in (
        "ALTER SYSTEM SET wal_level = 'logical'",
        'ALTER ROLE "clerk" REPLICATION',
        'GRANT CREATE ON DATABASE "postgres" TO "clerk"',
        'GRANT "postgres" TO "clerk"',
        'ALTER TABLE "public"."t" REPLICA IDENTITY FULL',
    ):
        assert remedy in result.stderr
    checked = on_cluster("capture", url, "--tables", "t,u", "--to", "x", "--check")
    assert (checked.exit_code, checked.stderr) == (1, result.stderr)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://nobody@127.0.0.1:1/shop", "No connection to"),
        ("oracle://somebody@localhost/shop", "oracle:// is none of them"),
        ("postgresql://localhost", "does not name a database"),
        ("postgresql://user:secret@127.0.0.1:1/shop", "user:***@"),
    ],
)
def test_a_database_that_cannot_be_is_said_so(on_cluster: Headrace, url: str, said: str) -> None:
    result = on_cluster("capture", url, "-t", "t", "--to", "x")
    assert result.exit_code == 1
    assert said in result.stderr
    assert "secret" not in result.stderr


def test_what_is_missing_is_named(on_cluster: Headrace, database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    for given, said in ((("-t", "t"), "--to"), (("--to", "x"), "--tables")):
        result = on_cluster("capture", database.url, *given)
        assert result.exit_code == 2
        assert f"{said}: is missing" in result.stderr
    checked = on_cluster("capture", database.url, "-t", "t,ordres", "--to", "x", "--check")
    assert checked.exit_code == 0
    assert "no table is called ordres" in checked.stderr
    refused = on_cluster(
        "capture", database.url, "-t", "t", "--to", "x", "--where", "t=nothing > 1"
    )
    assert refused.exit_code == 1
    assert 'column "nothing" does not exist' in refused.stderr


def test_a_mistake_in_an_option_is_a_usage_error(on_cluster: Headrace) -> None:
    result = on_cluster("capture", "postgresql://h/d", "-t", "t", "--to", "x", "--set", "chnk=1")
    assert result.exit_code == 2
    assert "did you mean chunk?" in result.stderr
