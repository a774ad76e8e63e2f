"""`headrace state show` where there is nothing to see; tests/streams has what there is."""

import json
from functools import partial
from pathlib import Path

import pytest

from headrace.kafka import Partition
from headrace.streams.running.checkpoints import Manifest
from headrace.streams.running.places import LocalPlace
from headrace.streams.running.registry import Registry, RegistryFile, StoredOutput
from headrace.streams.source.offsets import SourceOffsets
from headrace.streams.versions import Version
from tests.cli.conftest import Headrace

COUNTING = "Aggregate by customer string of count(1)"


def test_without_flows_it_says_where_it_has_looked(headrace: Headrace):
    result = headrace("state", "show", "shop")
    assert result.exit_code == 1
    assert "No flow has run with the checkpoints in" in result.stderr
    assert "--checkpoints" in result.stderr


@pytest.fixture
def shop(tmp_path: Path) -> LocalPlace:
    """The checkpoints of a flow with an output that counts and one that does not."""
    root = LocalPlace(tmp_path / "headrace-flows")
    outputs = {
        name: StoredOutput({"orders": "orders"}, (), name, name) for name in ("counts", "large")
    }
    RegistryFile(root).change(partial(Registry.noted, version=Version("shop"), outputs=outputs))
    for name, state in (("counts", (COUNTING,)), ("large", ())):
        place = root.child("shop").child(name)
        manifest = Manifest("shop", name, ("orders as json",), f"topic {name}", state=state)
        place.write("headrace.json", manifest.to_json())
        offsets = SourceOffsets({Partition("orders", 0): 3}).to_json()
        spark = place.child("spark")
        spark.child("offsets").write("0", f"v1\n{{}}\n{json.dumps(offsets)}")
        spark.child("commits").write("0", "v1\n{}")
    return root


@pytest.mark.usefixtures("shop")
def test_without_a_flow_it_lists_what_each_keeps(headrace: Headrace):
    result = headrace("state", "show")
    assert result.exit_code == 0, result.stderr
    headings, listed_flow = result.stdout.splitlines()
    assert headings.split() == ["FLOW", "VERSION", "CURRENT", "OUTPUT", "KEEPS"]
    assert listed_flow.split(maxsplit=4) == ["shop", "v1", "yes", "counts", COUNTING]
    (listed,) = json.loads(headrace("state", "show", "--json").stdout)
    assert listed["keeps"] == {"counts": COUNTING}
    assert headrace("state", "show", "--table", "panes").exit_code == 2


def test_what_needs_no_spark_starts_none(
    headrace: Headrace, shop: LocalPlace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headrace.streams.session.spark_session", None)
    said = headrace("state", "show", "shop").stderr
    assert said == f"Output counts has state of Spark's own: {COUNTING}.\n"
    shop.child("shop").child("counts").remove()
    result = headrace("state", "show", "shop")
    assert result.exit_code == 1
    assert "Flow shop keeps no state: nothing that its outputs counts, large do" in result.stderr


def test_a_flow_that_has_not_run_here_is_guessed_at(headrace: Headrace, tmp_path: Path):
    file = RegistryFile(LocalPlace(tmp_path / "headrace-flows"))
    output = StoredOutput({"orders": "orders"}, (), "large", "large")
    file.change(partial(Registry.noted, version=Version("shop"), outputs={"large": output}))
    assert "did you mean shop?" in headrace("state", "show", "shp").stderr
    assert "no version v3" in headrace("state", "show", "shop", "--version", "v3").stderr
