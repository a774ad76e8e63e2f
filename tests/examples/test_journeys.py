"""The simulated visitors behave like visitors, and the same way every time."""

from collections import Counter, defaultdict
from itertools import islice, pairwise

from examples.shop.catalogue import PRODUCTS, SEARCH_TERMS, find
from examples.shop.events import CLICKS, ORDERS, PAGE_VIEWS, SEARCHES, TOPICS, Event
from examples.shop.journeys import Shop

PRICES = {product.name: product.price_cents for product in PRODUCTS}
URLS = {product.url: product for product in PRODUCTS}


def events(count: int, seed: int = 1) -> list[Event]:
    return list(islice(Shop(seed), count))


def visits(count: int) -> list[list[Event]]:
    """Events of each session, in order."""
    by_session: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events(count):
        by_session[event.session].append(event)
    return list(by_session.values())


def test_the_same_seed_gives_the_same_events() -> None:
    assert events(500, seed=3) == events(500, seed=3)
    assert events(500, seed=3) != events(500, seed=4)


def test_every_search_term_finds_a_choice_of_products() -> None:
    assert all(len(find(term)) >= 2 for term in SEARCH_TERMS)


def test_a_visit_begins_at_the_front_page_and_searches_next() -> None:
    for visit in visits(2_000):
        assert visit[0].topic == PAGE_VIEWS
        assert visit[0].details["url"] == "/"
        assert all(event.topic == SEARCHES for event in visit[1:2])


def test_a_click_is_on_a_result_of_the_search_before_it() -> None:
    for visit in visits(2_000):
        for before, event in pairwise(visit):
            if event.topic == CLICKS:
                assert before.topic == SEARCHES
                assert before.details["query"] == event.details["query"]
                assert URLS[str(event.details["url"])] in find(str(event.details["query"]))


def test_an_order_holds_what_was_clicked_and_ends_the_visit() -> None:
    ordered = 0
    for visit in visits(5_000):
        clicked = {URLS[str(e.details["url"])].name for e in visit if e.topic == CLICKS}
        for event in visit:
            if event.topic == ORDERS:
                ordered += 1
                items = event.details["items"]
                assert isinstance(items, list)
                assert {item["product"] for item in items} == clicked
                assert event is visit[-1]
    assert ordered > 50


def test_an_orders_total_is_the_sum_of_its_items() -> None:
    for event in events(5_000):
        if event.topic == ORDERS:
            items = event.details["items"]
            assert isinstance(items, list)
            total = sum(item["quantity"] * PRICES[item["product"]] for item in items)
            assert event.details["total_cents"] == total


def test_people_look_more_than_they_search_and_search_more_than_they_buy() -> None:
    counts = Counter(event.topic for event in events(10_000))
    assert set(counts) == set(TOPICS)
    assert counts[PAGE_VIEWS] > counts[SEARCHES] > counts[CLICKS] > counts[ORDERS] > 100


def test_an_event_is_json_with_its_session_and_time() -> None:
    event = Event(SEARCHES, "session-1", {"query": "tent"})
    assert event.encode(at_ms=5) == b'{"session":"session-1","at":5,"query":"tent"}'
