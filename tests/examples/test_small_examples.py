"""The small examples say what they promise to show."""

import pytest

from examples import compaction, exactly_once, fan_out, replay
from headrace import Broker


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest):
    with Broker(flush="os", compaction_check_ms=200, retention_check_ms=200) as broker:
        yield broker.bootstrap


def test_every_department_gets_every_order_and_its_members_share_them(bootstrap: str):
    said: list[str] = []
    received = fan_out.fan_out(bootstrap, said.append)
    everything = sorted(received["statistician"])
    assert len(everything) == 2 * fan_out.ORDERS
    assert sorted(received["Ada"] + received["Bob"]) == everything
    assert received["Bob"]
    assert said[-1] == f"Bob goes home. Of the next {fan_out.ORDERS}, Ada gets {fan_out.ORDERS}."


def test_orders_of_one_customer_come_to_one_packer_in_their_order(bootstrap: str):
    received = fan_out.fan_out(bootstrap, lambda said: None)
    first = {
        name: [each for each in received[name] if _number(each) < fan_out.ORDERS]
        for name in ("Ada", "Bob")
    }
    customers = {name: {each.split()[0] for each in orders} for name, orders in first.items()}
    assert not customers["Ada"] & customers["Bob"]
    for customer in customers["Bob"]:
        numbers = [_number(each) for each in first["Bob"] if each.startswith(f"{customer} ")]
        assert numbers == sorted(numbers)


def test_what_was_read_is_read_again_from_the_start_and_from_noon(bootstrap: str):
    sums = replay.replay(bootstrap)
    sold = list(replay.sales())
    assert sums.wrong == sum(sale["price"] for _, sale in sold)
    assert sums.again == sum(replay.mended(sale) for _, sale in sold)
    assert sums.since_noon == sum(replay.mended(sale) for at, sale in sold if at >= replay.NOON)
    assert sums.wrong < sums.again


def test_a_compacted_log_has_the_same_prices_in_fewer_records(bootstrap: str):
    before, after = compaction.compacted(bootstrap)
    assert len(before.offsets) == compaction.PRODUCTS * compaction.CHANGES + 1
    assert after.offsets == before.offsets[-compaction.PRODUCTS :]
    assert after.prices == before.prices
    assert "product 0" not in after.prices


def test_only_transactions_keep_a_killed_program_from_invoicing_twice(bootstrap: str):
    exactly_once.place_orders(bootstrap)
    without = exactly_once.invoice(bootstrap, "without", transactions=False)
    assert without.deaths > 1
    assert (without.missing, without.twice) == (0, without.deaths * exactly_once.AT_A_TIME)
    kept = exactly_once.invoice(bootstrap, "with", transactions=True)
    assert kept.deaths > 1
    assert (kept.missing, kept.twice) == (0, 0)


def _number(order: str) -> int:
    return int(order.split()[1])
