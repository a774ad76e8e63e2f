"""The import contract of pyproject.toml: the code keeps it, and breaking it is noticed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "broker",
    "capture",
    "cli",
    "console",
    "kafka",
    "log",
    "records",
    "settings",
    "streams",
    "testing",
    "views",
    "views/feeds",
    "views/filters",
    "views/materialized",
    "views/serving",
)
MODULES = (
    "__init__",
    "clock",
    "errors",
    "broker/server",
    "cli/archive",
    "cli/broker",
    "records/arrow",
    "views/client",
    "views/registry",
)


def check(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the import linter on the tree in `directory`, as `make lint` does on ours."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--config", "pyproject.toml"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def contract() -> str:
    """The linter's part of our pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text()
    return text[text.index("[tool.importlinter]") :]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project with our contract and empty packages, to which a test adds one import."""
    package = tmp_path / "src" / "headrace"
    for name in PACKAGES:
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
    for name in MODULES:
        (package / f"{name}.py").touch()
    (tmp_path / "pyproject.toml").write_text(contract())
    return tmp_path


def write(tree: Path, module: str, code: str) -> None:
    path = tree / "src" / "headrace" / module
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)


def test_our_code_keeps_the_contract() -> None:
    result = check(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("broker/server.py", "import headrace.log"),
        ("cli/archive.py", "import headrace.log"),
        ("cli/broker.py", "import headrace.broker"),
        ("testing/plugin.py", "import headrace.broker"),
        ("log/segment.py", "import headrace.errors, headrace.clock, headrace.settings"),
        ("kafka/raw_fetch.py", "import headrace.records.arrow"),
        ("streams/source.py", "import headrace.kafka, headrace.records.arrow"),
        ("capture/delivery.py", "import headrace.kafka, headrace.settings"),
        ("views/serving/server.py", "import headrace.kafka, headrace.views.feeds"),
        ("__init__.py", "def __getattr__(name): from headrace.broker import server"),
    ],
)
def test_an_import_that_the_map_allows_passes(tree: Path, module: str, code: str) -> None:
    write(tree, module, code)
    result = check(tree)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "code", "broken"),
    [
        ("log/segment.py", "import headrace.broker", "point downward"),
        ("records/header.py", "import headrace.log", "point downward"),
        ("errors.py", "import headrace.settings", "point downward"),
        ("kafka/admin.py", "def lazily(): import headrace.cli", "point downward"),
        ("kafka/admin.py", "import headrace.records", "never the broker"),
        ("streams/flow.py", "import headrace.broker", "never the broker"),
        ("streams/flow.py", "import headrace.cli", "point downward"),
        ("cli/topics.py", "import headrace.log", "never the broker"),
        ("capture/delivery.py", "import headrace.broker", "never the broker"),
        ("capture/delivery.py", "def lazily(): import headrace.streams", "stays small"),
        ("views/serving/server.py", "def lazily(): import headrace.streams", "stays small"),
        ("views/feeds/hub.py", "import headrace.console", "point downward"),
        ("broker/server.py", "import rich", "stays small"),
        ("log/segment.py", "def lazily(): import numpy", "stays small"),
        ("unheard_of/__init__.py", "", "point downward"),
    ],
)
def test_an_import_that_the_map_forbids_is_named(
    tree: Path, module: str, code: str, broken: str
) -> None:
    write(tree, module, code)
    result = check(tree)
    assert result.returncode == 1, result.stdout + result.stderr
    assert re.search(rf"{broken}.* BROKEN", result.stdout), result.stdout
