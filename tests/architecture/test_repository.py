"""What the repository must not contain, because it holds on one machine only."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]

INDEX_ADDRESS = re.compile(
    r"https?://\S+\.(whl|tar\.gz|jar)\b|/(simple|maven2)/?(?=[\s\"']|$)"
    r"|^\s*(--|-)?(extra-)?index-url|^\s*--find-links",
    re.MULTILINE,
)
MACHINE_PATH = re.compile(r"(?<![\w.:/}*-])/(home|root|Users|work|workspace)/\w")


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name]


def texts() -> list[tuple[Path, str]]:
    files = [path for path in tracked_files() if path.is_file() and path != Path(__file__)]
    return [(path.relative_to(ROOT), path.read_text(errors="replace")) for path in files]


@pytest.mark.parametrize("pattern", [INDEX_ADDRESS, MACHINE_PATH], ids=["index", "path"])
def test_no_file_names_a_package_index_or_a_path_of_some_machine(pattern: re.Pattern[str]) -> None:
    found = [f"{path}: {match[0]}" for path, text in texts() for match in pattern.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (INDEX_ADDRESS, "--index-url https://packages.example/simple"),
        (INDEX_ADDRESS, "a @ https://packages.example/a.whl"),
        (INDEX_ADDRESS, "# x\n--find-links wheels"),
        (MACHINE_PATH, "# via -r /home/ada/project/requirements.in"),
        (MACHINE_PATH, 'DATA = "/root/data"'),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


@pytest.mark.parametrize("name", ["runtime", "dev", "demo"])
def test_every_locked_requirement_has_a_hash(name: str) -> None:
    lock = (ROOT / "requirements" / f"{name}.lock").read_text()
    requirements = re.findall(r"^[a-z0-9].*(?:\n    --hash=.*)*", lock, re.MULTILINE)
    assert len(requirements) > 20
    assert [entry for entry in requirements if "--hash=sha256:" not in entry] == []


def pins(name: str) -> set[tuple[str, str]]:
    """Name and version of everything in a lock."""
    lock = (ROOT / "requirements" / f"{name}.lock").read_text()
    return set(re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^ \\]+)", lock, re.MULTILINE))


def test_the_locks_agree_on_what_they_share() -> None:
    assert pins("runtime") <= pins("demo") <= pins("dev")


def test_the_locks_hold_what_the_project_asks_for() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    groups, extras = project["dependency-groups"], project["project"]["optional-dependencies"]
    asked = {
        "runtime": [*project["project"]["dependencies"], *groups["build"]],
        "demo": [*extras["spark"], *extras["duckdb"], *groups["demo"]],
        "dev": [*extras["testing"], *groups["dev"]],
    }
    for name, requirements in asked.items():
        for requirement in (Requirement(each) for each in requirements if isinstance(each, str)):
            versions = [version for pinned, version in pins(name) if pinned == requirement.name]
            assert versions, f"{requirement.name} is not in {name}.lock; run make lock"
            assert all(requirement.specifier.contains(version) for version in versions), (
                f"{name}.lock has {requirement.name} {versions}, not {requirement}; run make lock"
            )
