"""What the command says without a cluster: help, version, and what is wrong with its arguments."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import headrace as package
from headrace.cli.commands import COMMANDS
from headrace.cli.main import app
from headrace.kafka.cluster import Cluster
from headrace.settings import KafkaSettings
from tests.cli.conftest import Headrace

HEAVY = ("asyncio", "confluent_kafka", "numba", "numpy", "orjson", "pyarrow", "rich", "uvloop")


def test_help_says_of_every_command_what_the_command_says_itself(headrace: Headrace):
    shown = headrace("--help").stdout
    for command, description in COMMANDS.items():
        assert f"\n  {command:7}  {description}\n" in shown
        assert f"\n  {description}\n" in headrace(command, "--help").stdout


@pytest.mark.parametrize(
    "command",
    [
        "broker",
        "produce",
        "tail",
        *(f"topics {verb}" for verb in ("list", "create", "describe", "delete", "config")),
        *(f"groups {verb}" for verb in ("list", "describe", "watch", "reset", "copy")),
    ],
)
def test_every_command_has_help(headrace: Headrace, command: str):
    result = headrace(*command.split(), "-h")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: headrace {command} ")


@pytest.mark.parametrize("family", ["topics", "groups"])
def test_short_descriptions_are_not_cut_off(headrace: Headrace, family: str):
    assert "..." not in headrace(family, "--help").stdout.replace("[ARGS]...", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_book_explains_every_option(command: str):
    book = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
    common = book.split("\n## `headrace ")[0]
    chapter = book.split(f"\n## `headrace {command}`")[1].split("\n## ")[0]
    family = get_command(app).get_command(None, command)  # type: ignore[attr-defined]
    verbs = getattr(family, "commands", {"": family})
    for name, verb in verbs.items():
        assert f"`{name}" in chapter
        for option in (each for each in verb.params if each.opts[0].startswith("-")):
            for spelling in (*option.opts, *option.secondary_opts):
                assert f"`{spelling}" in chapter or f"`{spelling}" in common, spelling


def test_help_imports_nothing_heavy():
    code = (
        "import sys, json; sys.argv = ['headrace', '--help']\n"
        "from headrace.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(result.stderr)}
    assert "typer" in loaded
    assert not loaded.intersection(HEAVY)


def test_the_version_is_the_package_s(headrace: Headrace):
    assert headrace("--version").stdout == f"headrace {package.__version__}\n"


def test_a_misspelt_command_ends_with_2_and_a_suggestion(headrace: Headrace):
    result = headrace("topcis")
    assert result.exit_code == 2
    assert "topics" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("tail t --from whenever", "is no position; write earliest, latest"),
        ("tail t --json --raw", "contradicts --json"),
        ("tail t --until 2999-01-01", "lies in the future"),
        ("produce t x --file y", "contradicts VALUE"),
        ("produce t --json -K :", "contradicts --json"),
        ("produce t x -H nothing", '"nothing" is not NAME=VALUE'),
        ("topics create t -c nothing", '"nothing" is not NAME=VALUE'),
        ("topics delete t u", "say --yes to delete t, u and every record"),
        ("groups reset g", "one of --to and --shift-by"),
        ("groups reset g --to latest --shift-by 1", "contradicts --to"),
        ("groups copy g h --to latest --shift-by 1", "contradicts --to"),
        ("groups copy g h --dry-run --execute", "contradicts --dry-run"),
        ("groups watch --alerts", "write [[lag.alerts]] into headrace.toml"),
        ("groups reset g --to latest --dry-run --execute", "contradicts --dry-run"),
        ("broker --set nothing", '"nothing" is not NAME=VALUE'),
    ],
)
def test_arguments_that_make_no_sense_end_with_2(
    headrace: Headrace, arguments: str, complaint: str
):
    result = headrace(*arguments.split())
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "variables", "complaint"),
    [
        ("topics list -b 127.0.0.1:1", {}, "Cannot reach a Kafka cluster at 127.0.0.1:1"),
        ("topics list -b nowhere.invalid:9092", {}, "the name nowhere.invalid is not known"),
        ("topics list -b nowhere", {}, '--bootstrap = "nowhere": "nowhere" is not HOST:PORT'),
        ("topics list -b localhost:99999", {}, "has port 99999, and the highest port there is"),
        ("groups watch --once -b 127.0.0.1:1", {}, "Cannot reach a Kafka cluster at 127.0.0.1:1"),
        ("groups watch -b 127.0.0.1:1", {}, "Cannot reach a Kafka cluster at 127.0.0.1:1"),
        ("groups copy a b -b 127.0.0.1:1", {}, "Cannot reach a Kafka cluster at 127.0.0.1:1"),
        ("groups watch --interval 5", {}, '--interval = "5": "5" is not a duration'),
        ("--config no.toml groups list", {}, "The settings file no.toml named by --config"),
        ("groups list", {"HEADRACE_KAFKA_BOOTSTRP": "x"}, "did you mean HEADRACE_KAFKA_BOOTSTRAP"),
        ("broker --flush always", {}, '--flush = "always": must be one of ack, interval, os.'),
        ("broker --set flsh=os", {}, '[broker] has no setting "flsh"; did you mean flush?'),
    ],
)
def test_what_is_wrong_outside_ends_with_1_and_one_line(
    headrace: Headrace,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    variables: dict[str, str],
    complaint: str,
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = headrace(*arguments.split())
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("headrace: ")
    assert result.stderr.count("\n") == 1
    assert complaint in result.stderr


def test_a_cluster_costs_nothing_until_it_is_used():
    assert Cluster(KafkaSettings(bootstrap="127.0.0.1:1")).bootstrap == "127.0.0.1:1"
