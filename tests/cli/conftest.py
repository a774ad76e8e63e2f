"""Running `headrace` in this process or, where signals and pipes matter, in one of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.main import app
from tests.clusters import Cluster


class Headrace(Protocol):
    """Runs a command and returns its outcome."""

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> Result: ...


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the surroundings: neither a settings file nor variables."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def headrace() -> Headrace:
    """Runs a command in this process; its arguments say which cluster, if any."""

    def run(*arguments: str, stdin: str | bytes = "") -> Result:
        return CliRunner().invoke(app, arguments, input=stdin)

    return run


@pytest.fixture
def on_cluster(cluster: Cluster, headrace: Headrace, monkeypatch: pytest.MonkeyPatch) -> Headrace:
    """Runs a command that talks to the cluster."""
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", cluster.bootstrap)
    return headrace


@contextmanager
def process(*arguments: str, start_new_session: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, gone at the end of the block."""
    running = subprocess.Popen(
        [sys.executable, "-m", "headrace", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )
    with running:
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()
