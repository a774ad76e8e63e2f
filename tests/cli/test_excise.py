"""`headrace excise`: what it asks, what it prints, what it refuses."""

import base64
import hmac
import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Broker
from tests.broker.erasing import TOPIC, customer, expected, read, write
from tests.cli.conftest import Headrace
from tests.cli.terminals import terminal
from tests.clusters import APACHE_KAFKA, Cluster


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(segment_bytes=4096, flush="os") as running:
        write(running.bootstrap, 70)
        yield running


@pytest.fixture
def excise(headrace: Headrace, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Headrace:
    """Runs `headrace excise people`."""
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", broker.bootstrap)

    def run(*arguments: str, stdin: str | bytes = "") -> object:
        return headrace("excise", TOPIC, *arguments, stdin=stdin)

    return run  # type: ignore[return-value]


def test_a_dry_run_shows_what_would_go_and_changes_nothing(
    excise: Headrace, broker: Broker, tmp_path: Path
):
    encoded = base64.b64encode(customer(2)).decode()
    shown = excise("--key", encoded, "--key-encoding", "base64", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert re.sub(" +", " ", shown.stdout).splitlines() == [
        "Topic people",
        "Records to erase 10",
        "",
        "PARTITION RECORDS FIRST LAST",
        " 0 10 2 65",
    ]
    assert list(tmp_path.iterdir()) == []
    assert len(read(broker.bootstrap)) == 70


def test_records_are_erased_and_a_receipt_is_saved(
    excise: Headrace, broker: Broker, tmp_path: Path
):
    keys = b"\n".join([customer(3).hex().encode(), b"", customer(5).hex().encode() + b"\r"])
    done = excise("--keys-file", "-", "--key-encoding", "hex", "-y", stdin=keys)
    assert done.exit_code == 0, done.output
    assert "Records erased      20" in done.stdout
    assert "nothing is left" in done.stdout
    (saved,) = tmp_path.glob("excision-*.json")
    assert saved.name in done.stdout
    receipt = json.loads(saved.read_text())
    assert receipt["records"] == 20
    assert customer(3).decode() not in saved.read_text()
    assert read(broker.bootstrap) == expected(70, [customer(3), customer(5)])


def test_the_receipt_is_printed_for_programs_with_keys_if_asked(excise: Headrace, tmp_path: Path):
    receipt_file = tmp_path / "receipt.json"
    done = excise("-k", "nobody", "--yes", "--json", "--show-keys", "--receipt", str(receipt_file))
    assert done.exit_code == 0, done.output
    receipt = json.loads(done.stdout)
    assert receipt == json.loads(receipt_file.read_text())
    assert (receipt["records"], receipt["check"]["passed"]) == (0, True)
    criteria = receipt["criteria"]
    assert criteria["plain_keys"] == ["nobody"]
    salt = bytes.fromhex(criteria["salt"])
    assert criteria["keys"] == [hmac.digest(salt, b"nobody", "sha256").hex()]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "say what is to go"),
        (("--key", "a"), "there is nobody to ask"),
        (("--key", "xyz", "--key-encoding", "hex", "--yes"), "a key is not hex"),
        (("--key", "?", "--key-encoding", "base64", "--yes"), "a key is not base64"),
        (("--header", "no-value", "--yes"), "is not NAME=VALUE"),
        (("--keys-file", "-", "--yes"), "there are no keys in stdin"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(
    excise: Headrace, arguments: tuple[str, ...], complaint: str
):
    refused = excise(*arguments)
    assert refused.exit_code == 2
    assert complaint in refused.stderr


def test_an_empty_file_of_keys_is_named(excise: Headrace, tmp_path: Path):
    (tmp_path / "keys").write_text("\n\n")
    refused = excise("--keys-file", "keys", "--key", "another", "--yes")
    assert refused.exit_code == 2
    assert "there are no keys in keys" in refused.stderr


def test_a_receipt_never_replaces_a_file_and_nothing_is_erased(
    excise: Headrace, broker: Broker, tmp_path: Path
):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    before = read(broker.bootstrap)
    refused = excise("--key", customer(6).decode(), "--yes", "--receipt", str(precious))
    assert refused.exit_code == 2
    assert "exists already" in refused.stderr
    assert precious.read_text() == "mine"
    assert read(broker.bootstrap) == before


def test_no_receipt_is_left_where_nothing_was_done(excise: Headrace, tmp_path: Path):
    receipt = tmp_path / "receipt.json"
    refused = excise("--key", "a", "--partition", "7", "--yes", "--receipt", str(receipt))
    assert refused.exit_code == 1
    assert not receipt.exists()


def test_records_that_only_look_alike_are_said_to_stay(
    headrace: Headrace, broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", broker.bootstrap)
    for key in ("customer-11", "customer-110", "customer-119"):
        assert headrace("produce", "alike", "value", "--key", key).exit_code == 0
    done = headrace("excise", "alike", "--key", "customer-11", "--yes")
    assert done.exit_code == 0, done.output
    assert "nothing is left" in done.stdout
    assert "Other records of the topic, which stay, hold the same bytes" in done.stderr
    assert "alike-0/" in done.stderr
    assert "other places" not in done.stderr


def test_what_the_broker_refuses_is_one_line(excise: Headrace, headrace: Headrace):
    refused = excise("--key", "a", "--partition", "7", "--yes")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "headrace: people is left as it is: people has no partition 7; the last of its 1 is 0.\n"
    )
    missing = headrace("excise", "nowhere", "--key", "a", "--yes")
    assert missing.exit_code == 1
    assert "There is no topic nowhere." in missing.stderr


def test_other_brokers_are_told_apart_from_none(cluster: Cluster, topic: str, headrace: Headrace):
    """Against both clusters, of which one is Headrace."""
    asked = headrace("excise", topic, "--key", "a", "--dry-run", "--bootstrap", cluster.bootstrap)
    if cluster.name == APACHE_KAFKA:
        assert asked.exit_code == 1
        assert "is not a Headrace broker" in asked.stderr
    else:
        assert asked.exit_code == 0, asked.output
    nobody = headrace("excise", topic, "--key", "a", "--dry-run", "-b", "127.0.0.1:1")
    assert nobody.exit_code == 1
    assert "Cannot reach a Kafka cluster" in nobody.stderr


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_is_asked_and_ctrl_c_does_not_stop_the_broker(broker: Broker, answer: str):
    receipts = broker.data / "excisions"
    before = set(receipts.glob("*"))
    cluster = Cluster("headrace", broker.bootstrap)
    with terminal("excise", TOPIC, "-k", "nobody", "-H", "a=b", cluster=cluster) as screen:
        screen.wait_for("Erase every record of people with 1 key or 1 header, for good? [y/N]:")
        screen.type(f"{answer}\n")
        if answer == "n":
            assert screen.finish() == 1
            assert set(receipts.glob("*")) == before
            return
        screen.wait_for("looking")
        screen.process.send_signal(signal.SIGINT)
        assert screen.finish() == 130
    (job,) = re.findall("goes on with excision (.*);", screen.shown)
    deadline = time.monotonic() + 30
    while not (receipts / f"{job}.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_ctrl_c_at_the_question_erases_nothing(broker: Broker):
    cluster = Cluster("headrace", broker.bootstrap)
    with terminal("excise", TOPIC, "-k", "nobody", cluster=cluster) as screen:
        screen.wait_for("[y/N]:")
        screen.interrupt()
        assert screen.finish() == 130
    assert "Aborted" not in screen.shown


def test_something_left_is_a_failure(excise: Headrace, broker: Broker):
    stray = broker.data / f"{TOPIC}-0" / "stray"
    stray.write_bytes(b"...customer-1...")
    failed = excise("--header", "a=customer-1", "--yes")
    stray.unlink()
    assert failed.exit_code == 1
    assert "FAILED: left in 1 files" in failed.stdout
    assert f"Left in {TOPIC}-0/stray." in failed.stderr
    assert "something is left of the records" in failed.stderr
