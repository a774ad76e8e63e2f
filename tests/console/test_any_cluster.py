"""The console on either kind of cluster, with many topics, and behind a token."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.console.observing.writing import produce
from headrace.kafka import Cluster as KafkaCluster
from headrace.settings import KafkaSettings
from tests.clusters import Cluster, headrace_cluster
from tests.conftest import TopicFactory
from tests.console.chromium import PATIENCE_MS, Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("playwright")

from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(240)

expect.set_options(timeout=PATIENCE_MS)


@contextmanager
def console(
    bootstrap: str, directory: Path, listen: str = "127.0.0.1:0", **settings: str
) -> Iterator[str]:
    """A console of its own; gives its address."""
    foreign = ("HEADRACE_", "PYTEST_")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
        "HEADRACE_LAG_STATE": str(directory / "lag"),
        **settings,
    }
    words = ["console", "--bootstrap", bootstrap, "--listen", listen]
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", *words],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Console at "), process.stderr and process.stderr.read()
            yield line.removeprefix("Console at ").strip()
        finally:
            process.terminate()
            process.communicate(timeout=30)


def test_topics_and_groups_of_any_cluster_are_shown(
    browser: "Browser", cluster: Cluster, new_topic: TopicFactory, tmp_path: Path
) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic = new_topic(partitions=2)
    kafka = KafkaCluster(KafkaSettings(bootstrap=cluster.bootstrap))
    for number in range(5):
        produce(kafka, topic, f'{{"number": {number}}}'.encode(), b"key", partition=1)
    group = f"readers-of-{topic}"
    reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    reader.commit(offsets=[TopicPartition(topic, 1, 3)], asynchronous=False)
    reader.close()
    with (
        console(cluster.bootstrap, tmp_path) as address,
        browser.new_context(viewport={"width": 1280, "height": 800}) as context,
    ):
        visitor = Visitor(context, address, f"any-cluster-{cluster.name}")
        page = visitor.go("/topics")
        page.get_by_label("Search topics").fill(topic)
        row = page.locator(".hr-table tbody tr", has_text=topic)
        expect(row).to_contain_text("5")
        visitor.picture(f"topics-{cluster.name}")
        page = visitor.go(f"/topics/{topic}")
        page.get_by_label("Filter").fill("number >= 3")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_text("2 of 5 records")).to_be_visible()
        page.get_by_role("tab", name="Partitions").click()
        partitions = page.locator(".hr-table", has_text="In sync")
        expect(partitions.locator("tbody tr", has_text="5")).to_be_visible()
        page.get_by_role("tab", name="Configuration").click()
        expect(page.get_by_text("cleanup.policy")).to_be_visible()
        page = visitor.go(f"/group?name={group}")
        expect(page.locator(".hr-fact", has_text="Lag")).to_contain_text("2")
        page = visitor.go("/flows")
        expect(page.get_by_text("headrace run flow.py")).to_be_visible()
        assert visitor.complaints == []


def test_a_thousand_topics_are_listed_quickly(browser: "Browser", tmp_path: Path) -> None:
    with headrace_cluster("--flush", "os") as cluster:
        with AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            wanted = [NewTopic(f"topic-{number:04}", 1, 1) for number in range(1000)]
            for created in admin.create_topics(wanted, request_timeout=60).values():
                created.result(60)
        with (
            console(cluster.bootstrap, tmp_path) as address,
            browser.new_context(viewport={"width": 1280, "height": 800}) as context,
        ):
            visitor = Visitor(context, address, "thousand-topics")
            page = visitor.go("/topics")
            expect(page.get_by_text("1-50 of 1000")).to_be_visible()
            assert page.locator(".hr-table tbody tr").count() == 50
            began = time.monotonic()
            visitor.go("/topics")
            expect(page.get_by_text("1-50 of 1000")).to_be_visible()
            shown = time.monotonic() - began
            began = time.monotonic()
            page.get_by_label("Search topics").fill("0999")
            expect(page.get_by_role("link", name="topic-0999")).to_be_visible()
            found = time.monotonic() - began
            visitor.picture()
            # Generous for a busy machine; what is meant are tenths of a second.
            assert shown < 15, f"the list took {shown:.1f} s"
            assert found < 10, f"the search took {found:.1f} s"


def test_a_token_is_asked_for_once(browser: "Browser", cluster: Cluster, tmp_path: Path) -> None:
    token = "long-and-secret-token"
    with (
        console(cluster.bootstrap, tmp_path, "0.0.0.0:0", HEADRACE_CONSOLE_TOKEN=token) as address,
        browser.new_context() as context,
    ):
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        here = address.replace("0.0.0.0", "127.0.0.1")
        page.goto(f"{here}/topics")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Enter").click()
        expect(page.get_by_text("That is not the token.")).to_be_visible()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Enter").click()
        expect(page.locator(".hr-title", has_text="Map")).to_be_visible()
        page.goto(f"{here}/topics")
        expect(page.locator(".hr-title", has_text="Topics")).to_be_visible()
        expect(page.locator(".hr-header .hr-tag")).to_have_text("live")
        assert token not in page.content()


def test_without_nicegui_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.console import serving
    from headrace.settings import Settings

    monkeypatch.setattr(serving, "find_spec", lambda name: None)
    with pytest.raises(serving.ConsoleMissing, match=r"pip install 'headrace\[console\]'"):
        serving.serve(Settings())


def test_off_loopback_it_does_not_start_without_a_token(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "headrace", "console", "--listen", "0.0.0.0:0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert outcome.returncode == 1
    assert "HEADRACE_CONSOLE_TOKEN" in outcome.stderr
