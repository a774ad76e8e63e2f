"""What the documentation shows works: its Python, its commands, its tests and its links."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Broker
from tests.docs.blocks import blocks, commands, session

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WALKTHROUGH = ROOT / "docs" / "getting-started.md"
DEFAULT_ADDRESS = "127.0.0.1:9092"

_SESSION_SECONDS = 280
"""Time for a document's program; those with flows start Spark, which is slow on a busy machine."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def with_python(path: Path) -> bool:
    return bool(session(path))


def with_tests(path: Path) -> bool:
    return any(block.word.startswith("test_") for block in blocks(path))


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker of the document's own, as its reader has: others use the same names of topics."""
    with Broker(flush="os") as started:
        yield started


def run_session(path: Path, bootstrap: str, directory: Path) -> None:
    """Run a document's Python as one program, against the given broker."""
    program = session(path).replace(DEFAULT_ADDRESS, bootstrap)
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=_SESSION_SECONDS,
        check=False,
    )
    assert result.returncode == 0, f"{name_of(path)}:\n{result.stderr}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if with_python(path) and path != WALKTHROUGH],
    ids=name_of,
)
def test_the_python_of_a_document_runs(path: Path, broker: Broker, tmp_path: Path) -> None:
    run_session(path, broker.bootstrap, tmp_path)


def test_getting_started_works_from_top_to_bottom(broker: Broker, tmp_path: Path) -> None:
    """Its Python continues what its first commands began, and its last commands look at both."""
    typed = [line for line in commands(WALKTHROUGH) if line.startswith("headrace ")]
    before = [line for line in typed if line.startswith(("headrace topics", "headrace produce"))]
    after = [line for line in typed if line.startswith(("headrace tail", "headrace groups"))]
    assert sorted(["headrace broker", *before, *after]) == sorted(typed)

    for line in before:
        run_command(line, broker.bootstrap, tmp_path)
    run_session(WALKTHROUGH, broker.bootstrap, tmp_path)
    shown = "".join(run_command(line, broker.bootstrap, tmp_path) for line in after)
    assert "tent" in shown
    assert "warehouse" in shown


def run_command(line: str, bootstrap: str, directory: Path) -> str:
    """Run a line as a shell would, with the `headrace` of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["sh", "-c", line],
        cwd=directory,
        env={**os.environ, "PATH": path, "HEADRACE_KAFKA_BOOTSTRAP": bootstrap},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if with_tests(path)], ids=name_of)
def test_the_tests_of_a_document_pass(path: Path, pytester: pytest.Pytester) -> None:
    files = [block for block in blocks(path) if "." in block.word]
    for block in files:
        file = pytester.path / block.word
        file.parent.mkdir(exist_ok=True)
        file.write_text(block.code)
    tests = sum(block.code.count("def test_") for block in files)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=tests)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), f"{name_of(path)} links to {target}"
        if anchor:
            assert anchor in anchors(linked), f"{name_of(path)} links to {target}"


def anchors(path: Path) -> set[str]:
    """What GitHub calls the headings of a file."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_files_that_the_architecture_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"\*\*`([\w/]+\.py)`\*\*", text)
    files = [ROOT / "src" / "headrace" / name for name in named]
    assert len(files) > 15
    assert [path for path in files if not path.exists()] == []
