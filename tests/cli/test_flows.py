"""`headrace flows` and `headrace run --rebuild`, from the first version to the end of it."""

import json
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headrace import Broker
from headrace.streams.running.places import LocalPlace
from headrace.streams.running.registry import Registry, RegistryFile, StoredOutput
from headrace.streams.versions import Version
from tests.cli.conftest import Headrace, process
from tests.streams.topics import Topics

SHOP = """
from headrace.streams import Flow

flow = Flow("shop")
orders = flow.stream("orders", "customer string, price double")
flow.topic("large-orders", orders.where("price >= {least}"), key="customer")
"""


@pytest.fixture
def topics() -> Iterator[Topics]:
    """The topics of a broker of the test's own."""
    with Broker(flush="os") as broker:
        yield Topics(broker.bootstrap)


@pytest.fixture
def noted(tmp_path: Path, topics: Topics) -> RegistryFile:
    """Two versions of a flow that have not read anything yet."""
    topics.write("orders", {}, {})
    file = RegistryFile(LocalPlace(tmp_path / "headrace-flows"))
    for name in ("v1", "v2"):
        version = Version("shop", name)
        output = StoredOutput({"orders": "orders"}, (), "large", version.topic("large"))
        file.change(partial(Registry.noted, version=version, outputs={"large": output}))
        (tmp_path / "headrace-flows" / version.title).mkdir()
    return file


def test_without_flows_there_is_nothing_to_list(headrace: Headrace):
    result = headrace("flows", "list")
    assert result.exit_code == 0
    assert "No flow has run with the checkpoints in" in result.stderr


def test_versions_are_listed_with_their_topics_and_lag(
    headrace: Headrace, topics: Topics, noted: RegistryFile
):
    result = headrace("flows", "list", "-b", topics.bootstrap)
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows == [
        ["FLOW", "VERSION", "CURRENT", "STATE", "OUTPUT", "TOPIC", "LAG"],
        ["shop", "v1", "yes", "-", "large", "large", "2"],
        ["shop", "v2", "-", "-", "large", "large.v2", "2"],
    ]
    result = headrace("flows", "list", "--json", "-b", topics.bootstrap)
    assert [each["lag"] for each in json.loads(result.stdout)] == [2, 2]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("promote", "shop", "v2"), "is 2 records behind (output large)"),
        (("promote", "shop", "v3"), "Flow shop has no version v3; did you mean v"),
        (("promote", "shp", "v2"), "No flow shp has run here; did you mean shop?"),
        (("promote", "shop", "v1"), "v1 is the current version of shop already"),
        (("promote", "shop", "a/b"), "cannot be the name of a version"),
        (("drop", "shop", "v1", "--yes"), "v1 is the current version of shop: promote another"),
    ],
)
def test_what_cannot_be_switched_is_refused_with_the_reason(
    headrace: Headrace,
    topics: Topics,
    noted: RegistryFile,
    words: tuple[str, ...],
    complaint: str,
):
    before = noted.read()
    result = headrace("flows", *words, "-b", topics.bootstrap)
    assert result.exit_code == 1
    assert complaint in result.stderr
    assert noted.read() == before


def test_a_version_is_promoted_by_force_and_back(
    headrace: Headrace, topics: Topics, noted: RegistryFile
):
    result = headrace("flows", "promote", "shop", "v2", "--force", "-b", topics.bootstrap)
    assert (result.exit_code, noted.read().current("shop").name) == (0, "v2")
    assert "large now means the topic large.v2; before, it was large." in result.stderr
    result = headrace("flows", "promote", "shop", "v1", "--force", "-b", topics.bootstrap)
    assert (result.exit_code, noted.read().aliases) == (0, {})


def test_nothing_is_dropped_without_being_asked(
    headrace: Headrace, topics: Topics, noted: RegistryFile
):
    result = headrace("flows", "drop", "shop", "v2", "--topics", "-b", topics.bootstrap)
    assert result.exit_code == 2
    assert "the topics large.v2" in result.stderr
    result = headrace("flows", "drop", "shop", "v2", "--yes", "-b", topics.bootstrap)
    assert result.exit_code == 0
    assert "Its topics are still there: large.v2." in result.stderr
    assert list(noted.read().flows["shop"].versions) == ["v1"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_flow_is_rebuilt_beside_itself_and_switched(
    headrace: Headrace, topics: Topics, tmp_path: Path
):
    pytest.importorskip("pyspark")
    old, new = tmp_path / "shop.py", tmp_path / "shop_v2.py"
    old.write_text(SHOP.format(least=10))
    new.write_text(SHOP.format(least=5))
    at = ("-b", topics.bootstrap)
    topics.write("orders", *({"customer": "ada", "price": each} for each in (3, 7, 12)))
    with process("run", str(old), *at, "--master", "local[1]") as running:
        topics.await_records("large-orders", 1)
        with process("run", str(new), *at, "--rebuild", "as", "v2", "--once") as rebuilt:
            _, errors = rebuilt.communicate(timeout=280)
        assert rebuilt.returncode == 0, errors
        assert "shop@v2.large-orders: finished, 3 rows read, 2 written" in errors
        found = json.loads(headrace("flows", "list", "--json", *at).stdout)
        assert [(each["version"], each["running"]) for each in found] == [
            ("v1", True),
            ("v2", False),
        ]
        assert headrace("flows", "promote", "shop", "v2", *at).exit_code == 0
        topics.write("orders", {"customer": "eve", "price": 6})
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
    with process("run", str(new), *at, "--once") as plain:
        _, errors = plain.communicate(timeout=280)
    assert plain.returncode == 0, errors
    assert [value["price"] for _, value in topics.read("large-orders")] == [12]  # type: ignore[index]
    prices = [value["price"] for _, value in topics.read("large-orders.v2")]  # type: ignore[index]
    assert prices == [7, 12, 6]
    result = headrace("flows", "drop", "shop", "v1", "--topics", "--yes", *at)
    assert (result.exit_code, "Deleted the topic large-orders." in result.stderr) == (0, True)
