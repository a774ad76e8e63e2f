"""A demo whose numbers do not agree says which, and fails."""

from random import Random

import pytest
from rich.console import Console

from examples.shop.chaos import NothingToKill, chosen
from examples.shop.processes import Process
from examples.shop.verdict import Account, Verdict, table

ORDERS = Account(orders=12, total_cents=345_600)


def test_equal_accounts_agree() -> None:
    verdict = Verdict(ORDERS, {"the view": ORDERS, "DuckDB": ORDERS})
    assert verdict.agrees
    console = Console(width=80)
    with console.capture() as shown:
        console.print(table(verdict))
    assert shown.get().count("3,456.00 €") == 3


@pytest.mark.parametrize("other", [Account(11, 345_600), Account(12, 345_601)])
def test_a_missing_order_and_a_missing_cent_are_told(other: Account) -> None:
    verdict = Verdict(ORDERS, {"the view": ORDERS, "DuckDB": other})
    assert not verdict.agrees
    (problem,) = verdict.problems()
    assert problem.startswith("DuckDB: ")


def test_without_orders_nothing_is_proved() -> None:
    nothing = Account(0, 0)
    assert not Verdict(nothing, {"DuckDB": nothing}).agrees


def test_chaos_takes_any_process_or_the_one_that_is_named() -> None:
    running = [
        Process(1, "broker", "broker"),
        Process(2, "flows", "flows"),
        Process(3, "flows", "java"),
    ]
    assert {chosen(running, "1", Random(seed)).pid for seed in range(50)} == {1, 2, 3}
    assert chosen(running, "flows", Random(1)).pid == 2
    with pytest.raises(NothingToKill, match="broker, flows"):
        chosen(running, "cashier", Random(1))
