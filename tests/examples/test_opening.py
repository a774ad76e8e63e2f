"""The shop's headrace.toml says all that is to run."""

import socket
from pathlib import Path

import pytest

from examples.shop import opening
from examples.shop.opening import opened
from headrace.console.supervising.parts import parts_of
from headrace.settings import load_settings


def test_everything_that_the_shop_consists_of_is_a_part(tmp_path: Path) -> None:
    premises = opened(tmp_path, rate=60)
    settings = load_settings(premises.settings, environment={})
    parts = {each.name: each for each in parts_of(settings, premises.settings)}
    assert set(parts) == {
        *("broker", "database", "visitors", "captures"),
        *("flows", "views", "sinks", "console"),
    }
    assert settings.broker.listen == settings.kafka.bootstrap == premises.broker
    assert settings.capture.captures[0].url == premises.database
    assert settings.serve.address == premises.views
    assert not parts["visitors"].again


def test_a_console_finds_another_port_if_somebody_is_at_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        taken = somebody.getsockname()[1]
        monkeypatch.setattr(opening, "CONSOLE_PORT", taken)
        assert not opened(tmp_path, rate=60).console.endswith(f":{taken}")
