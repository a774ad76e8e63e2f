"""What is remembered of flows and their versions."""

import json
import threading
from pathlib import Path

import pytest

from headrace.streams.running.errors import CheckpointMismatch
from headrace.streams.running.places import LocalPlace
from headrace.streams.running.registry import Registry, RegistryFile, StoredOutput
from headrace.streams.versions import Version

V1, V2 = Version("shop"), Version("shop", "v2")


def output(topic: str, writes: str) -> StoredOutput:
    return StoredOutput({"orders": "orders"}, (), topic, writes)


def two_versions() -> Registry:
    first = Registry().noted(V1, {"large": output("large", "large")})
    return first.noted(V2, {"large": output("large", "large.v2")})


def test_the_first_version_is_current_until_another_is_promoted():
    registry = two_versions()
    assert (registry.current("shop"), registry.aliases) == (V1, {})
    promoted = registry.promoted(V2)
    assert (promoted.current("shop"), promoted.aliases) == (V2, {"large": "large.v2"})
    assert promoted.promoted(V1).aliases == {}
    assert registry.current("unheard-of").name == "v1"


def test_a_flow_without_versions_is_forgotten():
    registry = two_versions().without(V2)
    assert not registry.knows(V2)
    assert registry.without(V1) == Registry()


def test_what_is_stored_is_read_again(tmp_path: Path):
    file = RegistryFile(LocalPlace(tmp_path))
    assert file.read() == Registry()
    file.change(lambda _: two_versions())
    assert file.read() == two_versions()


def test_a_change_of_nothing_writes_nothing(tmp_path: Path):
    file = RegistryFile(LocalPlace(tmp_path))
    file.change(lambda registry: registry)
    assert not (tmp_path / ".flows.json").exists()


def test_a_file_of_another_format_is_not_guessed_at(tmp_path: Path):
    (tmp_path / ".flows.json").write_text(json.dumps({"version": 99, "flows": {}}))
    with pytest.raises(CheckpointMismatch, match="another version of Headrace"):
        RegistryFile(LocalPlace(tmp_path)).read()


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path):
    file = RegistryFile(LocalPlace(tmp_path))

    def note(number: int) -> None:
        file.change(lambda registry: registry.noted(Version(f"flow-{number}"), {}))

    threads = [threading.Thread(target=note, args=(number,)) for number in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(file.read().flows) == 20
