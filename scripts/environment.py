"""Make the project's virtual environment match its lock file; does nothing when it already does.

    python3 scripts/environment.py demo        what `make demo` needs
    python3 scripts/environment.py dev         what tests and lint need

Only the standard library: this runs before anything is installed.
"""

import fcntl
import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
OLDEST_PYTHON = (3, 11)


class SetupFailed(Exception):
    """The environment could not be made; the message says what to do."""


def fingerprint(lock: Path) -> str:
    """What an installed environment depends on: the lock, the project's metadata, the Python."""
    digest = hashlib.sha256()
    for part in (lock, ROOT / "pyproject.toml"):
        digest.update(part.read_bytes())
    digest.update(sys.version.encode())
    return digest.hexdigest()


def create() -> None:
    """Create `.venv`, or replace one that another Python or an interrupted run left behind."""
    try:
        venv.create(ENVIRONMENT, with_pip=True, clear=True, symlinks=True)
    except subprocess.CalledProcessError as error:
        raise SetupFailed(
            f"{sys.executable} cannot create virtual environments. On Debian and Ubuntu, install "
            "python3-venv; or name another Python: make setup PYTHON=/path/to/python3"
        ) from error


def install(lock: Path) -> None:
    """Install exactly what the lock names, then Headrace itself in place.

    What comes as source is built by what the runtime's lock has put there before, because pip would
    download other build tools without looking at any hash.
    """
    python = str(ENVIRONMENT / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    try:
        for each in dict.fromkeys((lock.with_name("runtime.lock"), lock)):
            hashed = ["--require-hashes", "--no-build-isolation", "--requirement", str(each)]
            subprocess.run([*pip, *hashed], check=True)
        subprocess.run([*pip, "--no-build-isolation", "--editable", ROOT], check=True)
    except subprocess.CalledProcessError as error:
        raise SetupFailed(f"pip could not install {lock.name}; its message is above") from error


def prepare(name: str) -> None:
    """Bring `.venv` up to the lock called `name`; concurrent calls wait for each other."""
    lock = ROOT / "requirements" / f"{name}.lock"
    wanted = fingerprint(lock)
    stamp = ENVIRONMENT / f"{name}.stamp"
    with (ROOT / ".venv.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        print(f"Installing {lock.relative_to(ROOT)} into .venv (once) ...", flush=True)
        if not has_this_python():
            create()
        install(lock)
        stamp.write_text(wanted)


def has_this_python() -> bool:
    """Whether `.venv` was completely made by the Python that runs this script."""
    settings = ENVIRONMENT / "pyvenv.cfg"
    python = ENVIRONMENT / "bin" / "python"
    return (
        settings.exists()
        and (ENVIRONMENT / "bin" / "pip").exists()
        and python.resolve() == Path(sys.executable).resolve()
    )


def main() -> int:
    """Run from the Makefile, which has chosen the Python."""
    if sys.version_info < OLDEST_PYTHON:
        print(f"Headrace needs Python 3.11 or newer; this is {sys.version}", file=sys.stderr)
        return 1
    try:
        prepare(sys.argv[1])
    except SetupFailed as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
