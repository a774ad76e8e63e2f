"""Devices have clocks of their own, and tunnels keep what happens in them, but lose nothing."""

import json
from datetime import UTC, datetime
from itertools import islice
from random import Random

from examples.shop.devices import Device, Network, Sent, device_of
from examples.shop.events import SEARCHES, TOPICS, encoded, topic_of
from examples.shop.journeys import Purchase, Search, Step, Visit, Visitors

OPENED = datetime(2026, 1, 1, 12, tzinfo=UTC)


def arrivals(seconds: float) -> tuple[list[Step], list[Sent[Step]]]:
    """What occurred, and what arrived of it, in the order of arrival."""
    network: Network[Step] = Network(Random(1))
    occurred, arrived = [], []
    at = 0.0
    for at, visit, step in Visitors(1, rate=50):
        arrived += network.come_out(at)
        if at > seconds:
            break
        occurred.append(step)
        arrived += network.pass_on(visit.session, step, at)
    return occurred, [*arrived, *network.close(at)]


def test_everything_arrives_once_and_some_of_it_late() -> None:
    occurred, arrived = arrivals(60)
    assert len(arrived) == len(occurred) > 1_000
    assert sorted(map(repr, occurred)) == sorted(repr(each.what) for each in arrived)
    late = [each for each in arrived if each.sent > each.occurred]
    assert 0 < len(late) < len(arrived) / 2
    assert max(each.sent - each.occurred for each in late) > 4
    assert all(each.device.kind == "mobile" for each in late)


def test_what_one_visitor_does_in_a_tunnel_arrives_in_its_order() -> None:
    _, arrived = arrivals(60)
    by_end: dict[float, list[float]] = {}
    for each in arrived:
        if each.sent > each.occurred:
            by_end.setdefault(each.sent, []).append(each.occurred)
    assert any(len(times) > 1 for times in by_end.values())
    assert all(times == sorted(times) for times in by_end.values())


def test_a_visit_has_one_device_and_many_clocks_are_wrong() -> None:
    sessions = {visit.session for _, visit, _ in islice(Visitors(1, rate=50), 20_000)}
    devices = [device_of(each) for each in sessions]
    assert devices == [device_of(each) for each in sessions]
    phones = [each for each in devices if each.kind == "mobile"]
    assert len(devices) / 4 < len(phones) < len(devices) / 2
    assert all(each.clock_seconds == 0 for each in devices if each.kind == "desktop")
    assert any(abs(each.clock_seconds) > 86_400 for each in phones)
    assert any(0 < abs(each.clock_seconds) <= 300 for each in phones)


def test_an_event_shows_the_clock_of_its_device() -> None:
    phone = Device("mobile", clock_seconds=-60)
    value = encoded(
        Visit("visit-1", 7), Sent(Search("tent", 2), phone, occurred=10, sent=15), OPENED
    )
    assert json.loads(value) == {
        "session": "visit-1",
        "customer": 7,
        "device": "mobile",
        "occurred": "2026-01-01T11:59:10+00:00",
        "sent": "2026-01-01T11:59:15+00:00",
        "query": "tent",
        "results": 2,
    }


def test_all_but_purchases_are_told_by_devices() -> None:
    told = [
        step for _, _, step in islice(Visitors(1, rate=50), 2_000) if not isinstance(step, Purchase)
    ]
    assert {topic_of(step) for step in told} == set(TOPICS)
    assert topic_of(Search("tent", 2)) == SEARCHES
