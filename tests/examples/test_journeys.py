"""The simulated visitors behave like visitors, and the same way every time."""

from collections import Counter, defaultdict
from itertools import islice, pairwise

from examples.shop.catalogue import CUSTOMERS, PRODUCTS, SEARCH_TERMS, customers, find
from examples.shop.journeys import Click, PageView, Purchase, Search, Step, Visit, Visitors

URLS = {product.url: product for product in PRODUCTS}


def steps(count: int, seed: int = 1, rate: float = 100) -> list[tuple[float, Visit, Step]]:
    return list(islice(Visitors(seed, rate), count))


def visits(count: int) -> list[list[Step]]:
    """Steps of each session, in order."""
    by_session: defaultdict[str, list[Step]] = defaultdict(list)
    for _, visit, step in steps(count):
        by_session[visit.session].append(step)
    return list(by_session.values())


def test_the_same_seed_gives_the_same_steps_at_the_same_times() -> None:
    assert steps(500, seed=3) == steps(500, seed=3)
    assert steps(500, seed=3) != steps(500, seed=4)


def test_steps_come_in_the_order_of_time_and_about_as_often_as_asked_for() -> None:
    for rate in (5, 200):
        times = [at for at, _, _ in steps(2_000, rate=rate)]
        assert times == sorted(times)
        assert 0.8 < 2_000 / times[-1] / rate < 1.2


def test_every_search_term_finds_a_product_and_every_visitor_is_a_customer() -> None:
    assert all(find(term) for term in SEARCH_TERMS)
    numbers = {customer.number for customer in customers()}
    assert len(numbers) == CUSTOMERS
    assert {visit.customer for _, visit, _ in steps(2_000)} <= numbers


def test_a_visit_begins_at_the_front_page_and_searches_next() -> None:
    for visit in visits(2_000):
        assert visit[0] == PageView("/")
        assert all(isinstance(step, Search) for step in visit[1:2])


def test_a_click_is_on_a_result_of_the_search_before_it() -> None:
    for visit in visits(2_000):
        for before, step in pairwise(visit):
            if isinstance(step, Click):
                assert isinstance(before, Search)
                assert before.query == step.query
                assert URLS[step.url] in find(step.query)


def test_a_purchase_is_of_something_clicked_and_ends_the_visit() -> None:
    bought = 0
    for visit in visits(5_000):
        clicked = {step.url for step in visit if isinstance(step, Click)}
        for step in visit:
            if isinstance(step, Purchase):
                bought += 1
                assert step.product.url in clicked
                assert step is visit[-1]
    assert bought > 50


def test_people_look_more_than_they_search_and_search_more_than_they_buy() -> None:
    counts = Counter(type(step) for _, _, step in steps(10_000))
    assert counts[PageView] > counts[Search] > counts[Click] > counts[Purchase] > 100
