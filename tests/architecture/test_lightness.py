"""What is imported when: an interpreter that only starts a broker or asks for help stays small."""

import subprocess
import sys

import pytest

HEAVY = {"confluent_kafka", "numba", "numpy", "obstore", "pandas", "polars", "pyarrow", "pyspark"}

EVERYTHING_UNDER = """
import importlib, pkgutil
for name in {packages}:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
"""


REPORT_AT_EXIT = """
import atexit, sys
atexit.register(lambda: print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr))
"""


def modules_after(code: str) -> set[str]:
    """Top-level modules that are loaded once a fresh interpreter has run `code`."""
    result = subprocess.run(
        [sys.executable, "-c", REPORT_AT_EXIT + code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return set(result.stderr.split())


def test_importing_headrace_loads_nothing_but_itself() -> None:
    loaded = modules_after("import headrace")
    assert not loaded & (HEAVY | {"asyncio", "kio", "rich", "typer", "uvloop"})


def test_the_pytest_plugin_loads_no_broker_and_no_client() -> None:
    loaded = modules_after("import headrace.testing.plugin")
    assert not loaded & (HEAVY | {"kio", "rich", "typer", "uvloop"})


def test_describing_flows_loads_no_spark() -> None:
    loaded = modules_after("import headrace.streams")
    assert not loaded & (HEAVY | {"py4j", "rich", "typer"})


@pytest.mark.parametrize("arguments", ["--help", "broker --help", "topics --help", "--version"])
def test_asking_for_help_loads_nothing_heavy(arguments: str) -> None:
    words = ["headrace", *arguments.split()]
    code = f"import sys; sys.argv = {words}; from headrace.cli.main import main; main()"
    assert not modules_after(code) & (HEAVY | {"kio"})


def test_a_broker_process_loads_nothing_heavy() -> None:
    code = EVERYTHING_UNDER.format(packages=["headrace.broker", "headrace.log"])
    assert not modules_after(code) & (HEAVY | {"rich"})
