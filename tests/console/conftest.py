"""One browser and one whole system for all tests of the console."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.errors import HeadraceError
from headrace.kafka import ensure_topic
from headrace.streams.java import find_java
from tests.capture.servers import PostgresServer
from tests.console.chromium import Visitor, chromium, running_browser
from tests.console.stack import Shop, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A real browser, shared by a module: as long as it is there, its thread runs an event loop."""
    pytest.importorskip("nicegui")
    pytest.importorskip("playwright")
    if chromium() is None:
        pytest.skip("there is no Chromium; `apt-get install chromium` installs it")
    with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def shop(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The whole system, shared by a module; a test that breaks something also mends it."""
    pytest.importorskip("pyspark")
    try:
        find_java({})
    except HeadraceError as missing:
        pytest.skip(str(missing))
    server = PostgresServer()
    try:
        server.start()
        found = Shop(tmp_path_factory.mktemp("shop"), server)
        try:
            eventually(lambda: found.up.doing("broker") == "running")
            ensure_topic(found.cluster, "clicks", partitions=1)
            found.up.await_ready()
            yield found
        finally:
            found.up.stop()
    finally:
        server.remove()


@pytest.fixture
def visitor(browser: "Browser", shop: Shop, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """Somebody who looks at the console of the shop; leaves a picture of what they saw last."""
    name = request.node.name.removeprefix("test_").partition("[")[0]
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        someone = Visitor(context, shop.address, name)
        yield someone
        someone.picture()
    assert someone.complaints == []
