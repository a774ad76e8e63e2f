"""The shop as a directory: a headrace.toml with everything that `headrace up` is to run."""

import json
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.shop import database

CONSOLE_PORT: Final = 8090
"""Where people look for the console, unless somebody else is there."""

FLOWS: Final = "flows.py"


@dataclass(frozen=True, slots=True)
class Premises:
    """Where everything of a shop is."""

    directory: Path
    broker: str
    console: str
    views: str
    database_port: int

    @property
    def database(self) -> str:
        """The database's URL."""
        return database.url(self.database_port)

    @property
    def warehouse(self) -> Path:
        """The file of DuckDB."""
        return self.directory / "warehouse.duckdb"

    @property
    def sign(self) -> Path:
        """The file that says that the shop is closed."""
        return self.directory / "closed"

    @property
    def settings(self) -> Path:
        """The file that says all of this to `headrace`."""
        return self.directory / "headrace.toml"

    @property
    def scratch(self) -> Path:
        """Where programs keep what they need for a while."""
        return self.directory / "tmp"

    @property
    def state(self) -> Path:
        """Where `headrace up` says what it runs, and keeps the logs."""
        return self.directory / "up"


def opened(directory: Path, rate: float) -> Premises:
    """Furnish a directory; ports are free ones at this moment."""
    ports = _free_ports(4)
    console = CONSOLE_PORT if _is_free(CONSOLE_PORT) else ports[3]
    premises = Premises(
        directory=directory,
        broker=f"127.0.0.1:{ports[0]}",
        console=f"127.0.0.1:{console}",
        views=f"127.0.0.1:{ports[2]}",
        database_port=ports[1],
    )
    premises.scratch.mkdir()
    shutil.copy(Path(__file__).with_name(FLOWS), directory / FLOWS)
    premises.settings.write_text(_settings(premises, rate), encoding="utf-8")
    # PostgreSQL is another user where this one is root, and its data are in here.
    directory.chmod(0o711)
    return premises


def _settings(premises: Premises, rate: float) -> str:
    def program(module: str, *arguments: str) -> str:
        return json.dumps([sys.executable, "-m", f"examples.shop.{module}", *arguments])

    directory = premises.directory
    port = premises.database_port
    serve = program("database", str(directory / "postgres"), str(port))
    visit = program(
        "visitors",
        *("--bootstrap", premises.broker, "--database", premises.database),
        *("--sign", str(premises.sign), "--rate", str(rate)),
    )
    return f"""\
# A shop: `headrace up` runs all of it.

[broker]
listen = "{premises.broker}"
data = "{directory / "broker"}"

[kafka]
bootstrap = "{premises.broker}"

[streams]
master = "local[2]"
memory = "512 MiB"
partitions = 1
checkpoints = "{directory / "flows"}"

[streams.properties]
# Sooner there and smaller: this Java has little to do, and less than to compile how it is done.
spark.driver.defaultJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
spark.local.dir = "{premises.scratch}"
spark.python.factory.idleWorkerMaxPoolSize = "4"
spark.sql.codegen.factoryMode = "NO_CODEGEN"
spark.sql.codegen.wholeStage = "false"

[[capture]]
url = "{premises.database}"
tables = ["customers", "products", "tax_rates", "orders"]
to = "shop"
partitions = 1

[[sink]]
topic = "shop.public.products"
to = "sqlite:///{directory / "search.db"}?search=name,description"
table = "products"
key = ["id"]
format = "debezium"
schema = "id int, name string, description string, price_cents int"
options = {{ unwrap = "true" }}

[serve]
address = "{premises.views}"
directory = "{directory / "views"}"

[console]
listen = "{premises.console}"
audit = "{directory / "audit.jsonl"}"

[up]
flows = ["{directory / FLOWS}"]
state = "{premises.state}"

[[up.parts]]
name = "database"
command = {serve}
address = "127.0.0.1:{port}"
first = true

[[up.parts]]
name = "visitors"
command = {visit}
first = true
again = false
"""


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for each in probes:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in probes]
    finally:
        for each in probes:
            each.close()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
