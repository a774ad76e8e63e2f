"""Which words in SQL are taken for misspelled columns, and which are let pass."""

import pytest

from headrace.streams import Flow, UnknownColumn
from headrace.streams.misspelling import misspelled

COLUMNS = ("customer", "price", "prices", "at", "year", "user_id", "address")


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        ("prize >= 100", "prize"),
        ("at is not null and not (Prize > 1)", "Prize"),
        ("case when prize then 1 else customer end", "prize"),
        ("sum(prize) as total", "prize"),
        ("addres.city = 'x'", "addres"),
        ("aggregate(prices, 0, (prize, x) -> prize + pric)", "pric"),
        ("exists(prices, p -> p > prize)", "prize"),
        (r"customer in ('a', r'\') and prize > 1", "prize"),
        ("userid in (1, 2)", "userid"),
    ],
)
def test_what_is_nearly_a_column_and_stands_for_one_is_found(expression: str, word: str):
    assert misspelled(expression, COLUMNS) == word


@pytest.mark.parametrize(
    "expression",
    [
        "PRICE > 3 and price < 1e3 and price <> 10L",
        "nothing_like_it > 3",
        "transform(prices, prize -> prize * 2)",
        "aggregate(prices, 0, (prize, x) -> prize + x)",
        "customer = 'prize' or customer = \"prize\" or customer = r'prize'",
        "customer like 'it''s a prize' or customer like 'it\\'s a prize'",
        "`prize` > 3",
        "prize(price)",
        "f(prize => 1)",
        "address.prize",
        "address:prize",
        "price::prize",
        "price as prize",
        "price prize",
        "cast(price as prize)",
        "customer collate custome",
        "extract(yer from at)",
        "at - interval 2 years",
        "at > date '2026-01-01' and at > dat '2026-01-01'",
        "price > 3 -- the prize",
        "price /* the prize */ > 3",
        "price in (select prize from others)",
        "cast(address as struct<prize: int>)",
        "${prize} > 3",
        "'an open end and prize",
    ],
)
def test_whatever_else_a_word_may_be_is_left_to_spark(expression: str):
    assert misspelled(expression, COLUMNS) is None


def test_verbs_refuse_it_when_they_are_described():
    orders = Flow("shop").stream("orders", "customer string, price double")
    with pytest.raises(UnknownColumn, match=r"^where: .* prize; did you mean price\?"):
        orders.where("prize >= 100")
    with pytest.raises(UnknownColumn, match=r"^with_columns: .* prize; did you mean price\?"):
        orders.with_columns(cents="cast(prize * 100 as long)")


def test_columns_that_are_made_beside_it_are_no_mistakes():
    orders = Flow("shop").stream("orders", "customer string, price double")
    assert orders.select("price * 2 as prices", "prices + 1 as more").columns == ("prices", "more")
    assert orders.select(prices="price * 2", more="prices + 1").columns == ("prices", "more")
