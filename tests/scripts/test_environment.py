"""Setting up: once per lock, without taking away what another lock has put there."""

import importlib.util
import subprocess
import sys
import venv
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "environment.py"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, at work on a project of its own; it makes environments but installs nothing."""
    spec = importlib.util.spec_from_file_location("environment", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "requirements").mkdir()
    for name in ("runtime", "dev"):
        (tmp_path / "requirements" / f"{name}.lock").write_text(f"{name}==1\n")
    (tmp_path / "pyproject.toml").touch()
    installed: list[str] = []
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "ENVIRONMENT", tmp_path / ".venv")
    monkeypatch.setattr(module, "install", lambda lock: installed.append(lock.stem))
    monkeypatch.setattr(module, "installed", installed, raising=False)
    create = venv.create

    def create_without_pip(directory: Path, *, with_pip: bool, clear: bool, symlinks: bool) -> None:
        create(directory, with_pip=False, clear=clear, symlinks=symlinks)
        (directory / "bin" / "pip").touch()

    monkeypatch.setattr(venv, "create", create_without_pip)
    return module


def test_a_lock_is_installed_once(environment: ModuleType) -> None:
    environment.prepare("runtime")
    environment.prepare("runtime")
    assert environment.installed == ["runtime"]


def test_a_changed_lock_is_installed_again(environment: ModuleType, tmp_path: Path) -> None:
    environment.prepare("runtime")
    (tmp_path / "requirements" / "runtime.lock").write_text("runtime==2\n")
    environment.prepare("runtime")
    assert environment.installed == ["runtime", "runtime"]


def test_a_second_lock_leaves_what_the_first_installed(
    environment: ModuleType, tmp_path: Path
) -> None:
    environment.prepare("dev")
    tool = tmp_path / ".venv" / "bin" / "some-tool"
    tool.touch()
    environment.prepare("runtime")
    assert environment.installed == ["dev", "runtime"]
    assert tool.exists()


def test_an_environment_that_was_interrupted_is_made_anew(
    environment: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    environment.prepare("runtime")
    python = tmp_path / ".venv" / "bin" / "python"
    assert subprocess.run([python, "-c", ""], check=False).returncode == 0


def test_an_old_python_is_told_what_is_needed(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 0))
    assert environment.main() == 1
    assert "Python 3.11 or newer" in capsys.readouterr().err
