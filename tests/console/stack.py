"""A whole system as `headrace up` runs it: PostgreSQL's shop, captures, flows and the console."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg2

from headrace.console.supervising.record import UpSeen, read_record
from headrace.kafka import Cluster
from headrace.settings import KafkaSettings

PATIENCE_SECONDS = 120.0

FLOWS = """
from headrace.streams import Flow

flow = Flow("shop")
orders = flow.table(
    "shop.public.orders",
    "id long, customer string, total double, status string",
    key="id",
    format="debezium",
)
clicks = flow.stream("clicks", "user string, url string", dead_letters="clicks-rejected")
flow.topic("order-states", orders, key="id")
flow.topic("clicks-by-user", clicks, key="user")
"""

SETTINGS = """
[broker]
listen = "127.0.0.1:{broker}"
data = "data"
flush = "os"

[kafka]
bootstrap = "127.0.0.1:{broker}"

[lag]
state = "lag"
interval = "1s"

[streams]
master = "local[1]"
partitions = 1
backoff = "500ms"

[console]
listen = "127.0.0.1:{console}"
refresh = "500ms"

[[console.alerts]]
name = "shop"
down = true
command = ["sh", "-c", "cat >> alarms.jsonl"]

[[lag.alerts]]
group = "slow"
max_records = 3

[serve]
address = "127.0.0.1:{views}"

[[view]]
name = "orders"
topic = "shop.public.orders"
key = ["id"]
format = "debezium"

[[sink]]
topic = "shop.public.orders"
to = "sqlite:///copy.db"
table = "orders"
key = ["id"]
format = "debezium"
schema = "id bigint, customer string, total double, status string"

[up]
flows = ["shop.py"]

[[capture]]
url = "{database}"
tables = ["orders"]
to = "shop"
heartbeat = "1s"
discovery = "1s"
decimals = "double"
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(look: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> Any:
    """What a look sees, as soon as that is anything."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.1)
    return found


class Up:
    """`headrace up` in a directory of its own."""

    def __init__(self, directory: Path, settings: str, *arguments: str) -> None:
        self.directory = directory
        (directory / "headrace.toml").write_text(settings)
        # NiceGUI behaves differently where it believes to be in a test.
        foreign = ("HEADRACE_", "PYTEST_")
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(foreign)
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "up", *arguments],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    @property
    def seen(self) -> UpSeen:
        return read_record(self.directory / "headrace-up")

    def doing(self, part: str) -> str:
        found = self.seen.part(part)
        return found.doing if found else ""

    def pid(self, part: str) -> int:
        found = self.seen.part(part)
        assert found is not None
        assert found.pid is not None
        return found.pid

    def await_ready(self) -> str:
        """The line that it prints when everything runs."""
        assert self.process.stdout is not None
        waiting = threading.Timer(PATIENCE_SECONDS, self.process.terminate)
        waiting.start()
        line = self.process.stdout.readline()
        waiting.cancel()
        assert line, self.log()
        return line.strip()

    def log(self, part: str = "") -> str:
        logs = self.directory / "headrace-up" / "logs"
        if part:
            return (logs / f"{part}.log").read_text(errors="replace")
        return "\n".join(f"{each.name}:\n{each.read_text()[-1500:]}" for each in logs.glob("*.log"))

    def stop(self) -> tuple[str, str]:
        """Ask it to stop; what it printed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.communicate()


class Shop:
    """The whole system, and the database it begins with."""

    def __init__(self, directory: Path, server: Any) -> None:
        self.server = server
        self._broker, self._console = free_port(), free_port()
        self.execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY, customer text, total double precision, "
            "status text)",
            "ALTER TABLE orders REPLICA IDENTITY FULL",
            "INSERT INTO orders SELECT n, 'Ada', n * 10, 'new' FROM generate_series(1, 20) AS n",
        )
        (directory / "shop.py").write_text(FLOWS)
        self.up = Up(
            directory,
            SETTINGS.format(
                broker=self._broker,
                console=self._console,
                views=free_port(),
                database=server.url("postgres"),
            ),
        )
        self.cluster = Cluster(KafkaSettings(bootstrap=f"127.0.0.1:{self._broker}"))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._console}"

    def execute(self, *statements: str) -> None:
        connection = psycopg2.connect(self.server.url("postgres"))
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                for each in statements:
                    cursor.execute(each)
        finally:
            connection.close()

    def produce(self, topic: str, *values: str, key: str | None = None) -> None:
        producer = self.cluster.producer()
        for value in values:
            producer.produce(topic, value.encode(), key and key.encode())
        producer.flush(20)
