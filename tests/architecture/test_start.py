"""What a broker imports before it listens, and that nothing is missing soon after."""

import json
import pkgutil
import subprocess
import sys
from typing import NamedTuple

import pytest

import headrace.broker
import headrace.log

LATER = (
    "headrace.broker.archive.archive",
    "headrace.broker.cleaning",
    "headrace.broker.excision",
    "headrace.broker.groups.classic",
    "headrace.broker.groups.consumer.group",
    "headrace.broker.groups.coordinator",
    "headrace.broker.handlers.groups",
    "headrace.broker.handlers.transactions",
    "headrace.broker.monitor",
    "headrace.broker.transactions.coordinator",
    "headrace.log.archive",
    "headrace.log.compaction",
    "headrace.log.excision",
)
"""What no first client needs, and would have to wait for."""

IF_CONFIGURED = (
    "headrace.broker.archive",
    "headrace.broker.monitor",
    "headrace.log.archive",
)
"""What a broker loads before it listens, but only if its settings ask for it."""

ELSEWHERE = (
    "headrace.broker.cleaning_worker",
    "headrace.broker.embedded",
    "headrace.broker.excision.worker",
    "headrace.broker.serve",
    "headrace.log.compaction_output",
    "headrace.log.compaction_round",
    "headrace.log.excision_check",
    "headrace.log.excision_rewrite",
    "headrace.log.giving_way",
)
"""What runs in another process, or around a server."""

START = """
import asyncio, json, sys
from pathlib import Path
sys.modules["hypothesis"] = None
from headrace.broker.server import Server
from headrace.settings import BrokerSettings

async def start():
    server = Server(BrokerSettings(data=Path(sys.argv[1]), listen="127.0.0.1:0"))
    await server.listen()
    listening = sorted(sys.modules)
    await server.complete()
    print(json.dumps([listening, sorted(sys.modules)]))
    await server.stop()

asyncio.run(start())
"""


class Start(NamedTuple):
    """The modules that a new process has loaded on its way to a broker."""

    listening: set[str]
    complete: set[str]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """A start on an empty data directory."""
    data = tmp_path_factory.mktemp("start") / "data"
    result = subprocess.run(
        [sys.executable, "-c", START, str(data)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return Start(*map(set, json.loads(result.stdout)))


def within(module: str, parts: tuple[str, ...]) -> bool:
    return any(module == part or module.startswith(part + ".") for part in parts)


def test_a_broker_listens_before_it_loads_what_no_first_client_needs(start: Start) -> None:
    assert [name for name in sorted(start.listening) if within(name, LATER)] == []
    # A package that looks up its own version brings a mail parser along.
    assert "email" not in start.listening


def test_nothing_is_left_to_be_imported_by_a_broker_that_runs(start: Start) -> None:
    every = {
        module.name
        for package in (headrace.broker, headrace.log)
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    }
    missing = every - start.complete
    assert [name for name in sorted(missing) if not within(name, IF_CONFIGURED + ELSEWHERE)] == []
