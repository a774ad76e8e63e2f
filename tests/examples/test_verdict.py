"""The demo's accounts: agreement is noticed, and so is every kind of disagreement."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from examples.shop.departments import SUSPICIOUS_CENTS, Analytics, Fraud
from examples.shop.events import CLICKS, ORDERS, SEARCHES, TOPICS
from examples.shop.verdict import GroupAccount, Verdict

COUNTS = Counter({"page_views": 40, "searches": 30, "clicks": 20, "orders": 10})
ANALYTICS = GroupAccount("analytics", TOPICS, COUNTS)
FRAUD = GroupAccount("fraud", (CLICKS, ORDERS), Counter({CLICKS: 20, ORDERS: 10}))
GOOD = Verdict(COUNTS, COUNTS, [ANALYTICS, FRAUD], revenue_cents=500, counted_cents=500)


def test_equal_numbers_agree() -> None:
    assert GOOD.agrees


def test_an_event_that_came_twice_but_counted_once_is_no_problem() -> None:
    assert replace(GOOD, groups=[replace(ANALYTICS, redelivered=3), FRAUD]).agrees


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (replace(GOOD, refused={"disk full": 2}), "2 events were refused: disk full"),
        (replace(GOOD, stored=COUNTS - Counter(orders=1)), "orders: 10 .* 9 are stored"),
        (replace(GOOD, produced=COUNTS + Counter(searches=1)), "searches: 31 .* 30 are stored"),
        (
            replace(GOOD, groups=[ANALYTICS, replace(FRAUD, processed=Counter(clicks=20))]),
            "orders: 10 .* fraud processed 0",
        ),
        (replace(GOOD, groups=[replace(ANALYTICS, missing=4)]), "analytics never saw 4"),
        (replace(GOOD, groups=[replace(FRAUD, lag=7)]), "fraud has not committed its last 7"),
        (replace(GOOD, counted_cents=499), "orders of 5.00 .* counted 4.99"),
    ],
)
def test_every_disagreement_is_named(verdict: Verdict, words: str) -> None:
    assert not verdict.agrees
    assert any(re.search(words, problem) for problem in verdict.problems())


def test_analytics_adds_up_orders_and_knows_the_favourite_search() -> None:
    analytics = Analytics()
    for query in ("tent", "socks", "tent"):
        analytics.note(SEARCHES, {"query": query})
    analytics.note(ORDERS, {"total_cents": 123_450})
    assert analytics.finding() == "revenue 1,234.50 €, most wanted: tent"


def test_fraud_notices_only_large_orders() -> None:
    fraud = Fraud()
    for total in (SUSPICIOUS_CENTS - 1, SUSPICIOUS_CENTS):
        fraud.note(ORDERS, {"total_cents": total})
    assert fraud.suspicious == 1
