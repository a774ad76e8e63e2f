"""Every page with live data, in a real browser, on a system that `headrace up` runs."""

import json
import os
import re
import signal

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.kafka import Partition, UnknownTopic, committed_offsets
from headrace.kafka.connection import connect
from headrace.kafka.raw_positions import LATEST, list_offsets
from tests.console.chromium import PATIENCE_MS, Visitor
from tests.console.stack import Shop, eventually

pytest.importorskip("playwright")

from playwright.sync_api import Locator, Page, expect

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

expect.set_options(timeout=PATIENCE_MS)


def test_the_map_shows_the_way_of_the_data_and_leads_there(visitor: Visitor, shop: Shop) -> None:
    eventually(lambda: _end(shop, "order-states"), 240)
    page = visitor.go("/")
    for number in range(100, 120):
        shop.execute(f"INSERT INTO orders VALUES ({number}, 'Grace', {number}, 'new')")
        shop.produce("clicks", f'{{"user": "u{number}", "url": "/"}}')
    for node in (
        "database shop",
        "topic shop.public.orders",
        "flow shop",
        "topic order-states",
        "view orders",
        "sink shop.public.orders-to-orders",
    ):
        expect(page.locator(f'.hr-map a[aria-label^="{node}:"]')).to_be_visible()
    expect(page.locator(".hr-map .edge.flowing").first).to_be_attached()
    expect(page.locator(".hr-map .rate").first).to_be_visible()
    visitor.picture("map")
    page.locator('.hr-map a[aria-label^="flow shop:"]').click()
    expect(page).to_have_url(re.compile("/flow"))


def test_the_list_of_topics_is_searched(visitor: Visitor) -> None:
    page = visitor.go("/topics")
    expect(page.get_by_role("link", name="clicks", exact=True)).to_be_visible()
    page.get_by_label("Search topics").fill("orders")
    expect(page.get_by_role("link", name="shop.public.orders")).to_be_visible()
    expect(page.get_by_role("link", name="clicks", exact=True)).to_have_count(0)
    expect(page.get_by_text("__headrace_status")).to_have_count(0)


def test_a_topic_is_filtered_and_a_change_is_shown_as_a_difference(
    visitor: Visitor, shop: Shop
) -> None:
    shop.execute("UPDATE orders SET status = 'paid', total = 333 WHERE id = 3")
    page = visitor.go("/topics/shop.public.orders")
    page.get_by_label("Filter").fill("total = 333")
    page.get_by_role("button", name="Search").click()
    row = page.locator(".hr-table tbody tr", has_text="333")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("updated")
    row.click()
    expect(page.locator(".hr-diff td.was", has_text="new")).to_be_visible()
    expect(page.locator(".hr-diff td.is", has_text="paid")).to_be_visible()
    visitor.picture("difference")
    page.get_by_label("Close").click()
    page.get_by_label("Filter").fill("total ~ (")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("is no regular expression")).to_be_visible()


def test_a_topic_is_followed_paused_and_resumed(visitor: Visitor, shop: Shop) -> None:
    page = visitor.go("/topics/clicks")
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_text("Following")).to_be_visible()
    shop.produce("clicks", '{"user": "ada", "url": "/one"}')
    expect(page.locator(".hr-table tbody", has_text="/one")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused")).to_be_visible()
    shop.produce("clicks", '{"user": "ada", "url": "/two"}')
    eventually(lambda: _end(shop, "clicks") >= 2)
    expect(page.locator(".hr-table tbody", has_text="/two")).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".hr-table tbody", has_text="/two")).to_be_visible()


def test_a_record_is_written_and_what_was_done_is_noted(visitor: Visitor, shop: Shop) -> None:
    page = visitor.go("/topics/clicks")
    page.get_by_role("button", name="Write").click()
    page.get_by_label("Key").fill("grace")
    page.get_by_label("Value").fill('{"user": "grace", "url": "/written-here"}')
    page.get_by_role("button", name="Write it").click()
    expect(page.locator(".hr-table tbody", has_text="/written-here")).to_be_visible()
    noted = [
        json.loads(line)
        for line in (shop.up.directory / "headrace-audit.jsonl").read_text().splitlines()
    ]
    mine = [each for each in noted if each["action"] == "produce"]
    assert mine[-1]["what"] == "clicks"
    assert "/written-here" not in json.dumps(mine)


def test_a_dead_letter_is_sent_back_to_where_it_came_from(visitor: Visitor, shop: Shop) -> None:
    shop.produce("clicks", "this is no JSON", key="broken")
    eventually(lambda: _end(shop, "clicks-rejected") >= 1)
    before = _end(shop, "clicks")
    page = visitor.go("/topics/clicks-rejected")
    expect(page.locator(".hr-table tbody", has_text="this is no JSON")).to_be_visible()
    visitor.picture("dead-letters")
    page.get_by_role("button", name="Send these back").click()
    expect(page.get_by_text("written once more to clicks")).to_be_visible()
    page.get_by_role("button", name="Send them back").click()
    expect(page.get_by_text("sent back to clicks")).to_be_visible()
    eventually(lambda: _end(shop, "clicks") > before)


def test_a_group_is_moved_after_a_preview(visitor: Visitor, shop: Shop) -> None:
    shop.produce("clicks", *(f'{{"user": "u", "url": "/{n}"}}' for n in range(8)))
    _read_with_group(shop, "slow", "clicks", 2)
    page = visitor.go("/group?name=slow")
    expect(page.locator(".hr-fact", has_text="State")).to_contain_text("empty")
    expect(page.locator(".hr-table", has_text="Committed")).to_contain_text("clicks")
    visitor.picture("group")
    page.get_by_role("button", name="Move offsets").click()
    expect(page.get_by_role("button", name="Move it")).to_be_disabled()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("1 partitions would move")).to_be_visible()
    assert _position(shop, "slow") == 2, "a preview moves nothing"
    page.get_by_role("button", name="Move it").click()
    expect(page.get_by_text("continues elsewhere")).to_be_visible()
    assert _position(shop, "slow") == 0
    page.get_by_role("button", name="Move offsets").click()
    page.get_by_label("Where to").click()
    page.get_by_role("option", name="By so many offsets").click()
    page.get_by_label("Time or number").fill("3")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Move it").click()
    eventually(lambda: _position(shop, "slow") == 3)


def test_lag_beyond_a_rule_is_an_alert(visitor: Visitor, shop: Shop) -> None:
    shop.produce("clicks", *(f'{{"user": "v", "url": "/{n}"}}' for n in range(8)))
    _read_with_group(shop, "slow", "clicks", 1)
    page = visitor.go("/alerts")
    expect(page.locator(".hr-card", has_text="group slow").first).to_be_visible()
    expect(page.locator(".hr-table tbody", has_text="records").first).to_be_visible()
    expect(page.locator(".hr-header .hr-tag")).to_contain_text("alert")


def test_a_flow_is_shown_with_its_batches(visitor: Visitor, shop: Shop) -> None:
    page = visitor.go("/flows")
    page.get_by_role("link", name="shop", exact=True).click()
    shop.produce("clicks", '{"user": "ada", "url": "/x"}')
    expect(page.locator(".hr-card", has_text="clicks-by-user").first).to_contain_text("Batch time")
    expect(page.locator(".hr-legend").first).to_contain_text("computing and writing")
    expect(page.get_by_role("link", name="clicks-rejected").first).to_be_visible()


def test_a_killed_flow_is_seen_to_recover(visitor: Visitor, shop: Shop) -> None:
    eventually(lambda: shop.up.doing("shop") == "running")
    page = visitor.go("/flow?title=shop")
    tag = page.locator(".hr-main .hr-tag").first
    expect(tag).to_have_text("running")
    before = shop.up.pid("shop")
    os.kill(before, signal.SIGKILL)
    eventually(lambda: (found := shop.up.seen.part("shop")) and found.restarts >= 1)
    expect(page.locator(".hr-fact", has_text="Process restarts")).to_contain_text("1")
    eventually(lambda: shop.up.doing("shop") == "running" and shop.up.pid("shop") != before)
    shop.execute("UPDATE orders SET status = 'back' WHERE id = 5")
    expect(tag).to_have_text("running")
    page.goto(f"{shop.address}/topics/order-states")
    page.get_by_label("Filter").fill("status = back")
    found = page.locator(".hr-table tbody tr", has_text="back")
    _search_until(page, found)


def test_a_flow_is_stopped_and_started(visitor: Visitor, shop: Shop) -> None:
    eventually(lambda: shop.up.doing("shop") == "running")
    page = visitor.go("/flow?title=shop")
    tag = page.locator(".hr-main .hr-tag").first
    expect(tag).to_have_text("running")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop it").click()
    expect(tag).to_have_text("stopped")
    eventually(lambda: shop.up.doing("shop") == "stopped")
    page.get_by_role("button", name="Start").click()
    expect(tag).to_have_text("running")


def test_an_order_is_traced_from_its_commit_to_where_it_went(visitor: Visitor, shop: Shop) -> None:
    shop.execute("INSERT INTO orders VALUES (4711, 'Grace', 12.5, 'traced')")
    page = visitor.go("/topics/order-states")
    page.get_by_label("Filter").fill("status = traced")
    row = page.locator(".hr-table tbody tr", has_text="traced")
    _search_until(page, row)
    row.click()
    page.get_by_role("button", name="Trace it").click()
    hops = page.locator("[data-hop]")
    expect(page.locator('[data-hop="commit"]')).to_contain_text("created in postgres.public.orders")
    expect(page.locator('[data-hop="flow"]')).to_contain_text("flow shop.order-states, batch")
    kinds = hops.evaluate_all("all => all.map(each => each.dataset.hop)")
    assert kinds == ["commit", "capture", "topic", "flow", "topic"]
    visitor.picture("trace")
    page.locator('[data-hop="topic"] a', has_text="shop.public.orders").click()
    expect(page).to_have_url(re.compile("shop.public.orders"))
    expect(page.locator('[data-hop="topic"]', has_text="order-states")).to_be_visible()


def test_the_rows_of_a_view_change_while_one_looks(visitor: Visitor, shop: Shop) -> None:
    page = visitor.go("/views")
    expect(page.locator(".hr-table tbody tr", has_text="sqlite").first).to_contain_text("copying")
    page.get_by_role("link", name="orders", exact=True).click()
    expect(page.locator(".hr-fact", has_text="Position")).to_contain_text("shop.public.orders:0:")
    row = page.locator(".hr-table tbody tr")

    def is_alone() -> bool:
        # What is typed while a page is being connected may be lost.
        page.get_by_label("Where").fill("id = 7")
        page.get_by_role("button", name="Ask").click()
        page.wait_for_timeout(1000)
        return row.count() == 1

    eventually(is_alone)
    shop.execute("UPDATE orders SET status = 'seen-live' WHERE id = 7")
    expect(row).to_contain_text("seen-live")
    page.get_by_label("Where").fill("id =")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text("rows, live")).to_have_count(0)


def test_a_capture_is_paused_and_resumed_and_reads_a_table_again(
    visitor: Visitor, shop: Shop
) -> None:
    page = visitor.go("/captures")
    tag = page.locator(".hr-card .hr-tag").first
    expect(tag).to_have_text("following")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Pause it").click()
    expect(tag).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(tag).to_have_text("following")
    page.get_by_role("button", name="Read a table again").click()
    before = _end(shop, "shop.public.orders")
    page.get_by_role("button", name="Read it again").click()
    eventually(lambda: _end(shop, "shop.public.orders") >= before + 20)


def test_a_database_that_is_down_is_shown_and_the_capture_recovers(
    visitor: Visitor, shop: Shop
) -> None:
    page = visitor.go("/captures")
    tag = page.locator(".hr-card .hr-tag").first
    expect(tag).to_have_text("following")
    shop.server.stop("immediate")
    try:
        expect(tag).to_have_text("waiting for another try")
        expect(page.locator(".hr-error")).to_be_visible()
        visitor.picture("capture-down")
        page.goto(f"{shop.address}/")
        expect(page.locator('.hr-map a.bad[aria-label^="database shop"]')).to_be_visible()
    finally:
        shop.server.start()
    page.goto(f"{shop.address}/captures")
    expect(page.locator(".hr-card .hr-tag").first).to_have_text("following")


def test_a_broker_that_is_gone_is_shown_and_everything_recovers(
    visitor: Visitor, shop: Shop
) -> None:
    page = visitor.go("/processes")
    page.locator(".hr-table tbody tr", has_text="broker").first.click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop it").click()
    eventually(lambda: shop.up.doing("broker") == "stopped")
    page.goto(f"{shop.address}/topics")
    expect(page.locator(".hr-banner")).to_contain_text("What is shown was seen")
    expect(page.locator(".hr-header .hr-tag")).to_have_text("no answer")
    expect(page.get_by_role("link", name="shop.public.orders")).to_be_visible()
    visitor.picture("broker-gone")
    page.goto(f"{shop.address}/processes")
    page.locator(".hr-table tbody tr", has_text="broker").first.click()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".hr-banner")).not_to_be_visible()
    page.goto(f"{shop.address}/captures")
    expect(page.locator(".hr-card .hr-tag").first).to_have_text("following")


def test_a_phone_shows_every_page_without_scrolling_sideways(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/topics", "/groups", "/flows", "/captures", "/views", "/alerts"):
        page = visitor.go(path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, f"{path} is {wide} wide"
    visitor.go("/")
    visitor.picture("phone")
    visitor.page.get_by_label("Menu").click()
    visitor.page.get_by_role("link", name="Topics", exact=True).click()
    expect(visitor.page).to_have_url(re.compile("/topics"))


def test_the_dark_theme_is_remembered(visitor: Visitor) -> None:
    page = visitor.go("/flow?title=shop")
    page.emulate_media(color_scheme="light")
    page.get_by_label("Light or dark").click()
    expect(page.locator("body.body--dark")).to_have_count(1)
    visitor.go("/topics")
    expect(page.locator("body.body--dark")).to_have_count(1)


def test_the_keyboard_reaches_the_menu_and_the_map(visitor: Visitor) -> None:
    page = visitor.go("/")
    expect(page.locator('.hr-map a[aria-label^="flow shop:"]')).to_be_visible()
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.getAttribute('href') || ''"))
    assert {"/topics", "/captures"} <= reached
    assert any(each.startswith("/flow") for each in reached)


def test_a_flow_is_rebuilt_as_a_new_version_and_promoted(visitor: Visitor, shop: Shop) -> None:
    eventually(lambda: shop.up.doing("shop") == "running")
    page = visitor.go("/flow?title=shop")
    page.get_by_role("button", name="Rebuild").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the version").fill("v2")
    dialog.get_by_role("button", name="Rebuild").click()
    expect(page.get_by_text("v2 is being built.")).to_be_visible()
    eventually(lambda: shop.up.doing("shop@v2") == "running")
    page.goto(f"{shop.address}/flow?title=shop%40v2")
    expect(page.locator(".hr-main .hr-tag").first).to_have_text("running")
    eventually(lambda: _end(shop, "order-states.v2") > 0)
    visitor.picture("rebuilt")
    page.get_by_role("button", name="Promote").click()
    page.get_by_role("button", name="Promote it").click()
    expect(page.get_by_text("v2 is the current version.")).to_be_visible()
    eventually(lambda: shop.up.doing("shop@v2") == "" and shop.up.doing("shop") == "running")
    noted = (shop.up.directory / "headrace-audit.jsonl").read_text()
    assert '"rebuild flow"' in noted
    assert '"promote flow"' in noted


def _search_until(page: Page, found: Locator) -> None:
    """Search again and again, for what may take a while to be written."""

    def search() -> int:
        page.get_by_role("button", name="Search").click()
        return found.count()

    eventually(search)


def _end(shop: Shop, topic: str) -> int:
    # The client library would remember for a long while that there was no such topic.
    try:
        ends = list_offsets(connect(shop.cluster.settings), [Partition(topic, 0)], LATEST)
    except UnknownTopic:
        return 0
    return ends[Partition(topic, 0)]


def _position(shop: Shop, group: str) -> int:
    return sum(committed_offsets(shop.cluster, group).values())


def _read_with_group(shop: Shop, group: str, topic: str, records: int) -> None:
    """Read so many records from the beginning, commit that, and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": shop.cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.5))
    consumer.commit(offsets=[TopicPartition(topic, 0, records)], asynchronous=False)
    consumer.close()
