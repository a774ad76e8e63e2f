"""`headrace state show` where there is nothing to see; tests/streams has what there is."""

from functools import partial
from pathlib import Path

from headrace.streams.running.places import LocalPlace
from headrace.streams.running.registry import Registry, RegistryFile, StoredOutput
from headrace.streams.versions import Version
from tests.cli.conftest import Headrace


def test_without_flows_it_says_where_it_has_looked(headrace: Headrace):
    result = headrace("state", "show", "shop")
    assert result.exit_code == 1
    assert "No flow has run with the checkpoints in" in result.stderr
    assert "--checkpoints" in result.stderr


def test_a_flow_that_has_not_run_here_is_guessed_at(headrace: Headrace, tmp_path: Path):
    file = RegistryFile(LocalPlace(tmp_path / "headrace-flows"))
    output = StoredOutput({"orders": "orders"}, (), "large", "large")
    file.change(partial(Registry.noted, version=Version("shop"), outputs={"large": output}))
    assert "did you mean shop?" in headrace("state", "show", "shp").stderr
    assert "no version v3" in headrace("state", "show", "shop", "--version", "v3").stderr
