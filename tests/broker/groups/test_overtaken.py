"""Groups whose unread records were removed: who is charged, how much, and how often it is said."""

import logging
from pathlib import Path

import pytest

from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.overtaken import Overtaken, OvertakenGroups
from headrace.log import Journal

ORDERS = TopicPartition("orders", 0)
CLICKS = TopicPartition("clicks", 3)


@pytest.fixture
def offsets(tmp_path: Path) -> OffsetStore:
    return OffsetStore.open(Journal.open(tmp_path / "groups.journal"))


def commit(offsets: OffsetStore, group: str, offset: int, where: TopicPartition = ORDERS) -> None:
    offsets.commit(group, {where: Committed(offset, -1, "", 0)})


def test_a_group_is_charged_for_what_it_had_not_read(offsets: OffsetStore):
    commit(offsets, "slow", 30)
    commit(offsets, "fast", 100)
    commit(offsets, "elsewhere", 0, CLICKS)
    overtaken = OvertakenGroups(offsets, [(ORDERS, 10)])
    overtaken.observe(ORDERS, 50)
    assert list(overtaken) == [Overtaken("slow", ORDERS, 20)]
    overtaken.observe(ORDERS, 80)
    assert list(overtaken) == [Overtaken("slow", ORDERS, 50)]


def test_a_removal_of_what_was_read_charges_nobody(offsets: OffsetStore):
    commit(offsets, "even", 50)
    overtaken = OvertakenGroups(offsets, [])
    overtaken.observe(ORDERS, 50)
    assert list(overtaken) == []


def test_what_was_gone_before_is_nobody_s_loss_today(offsets: OffsetStore):
    commit(offsets, "returned", 5)
    overtaken = OvertakenGroups(offsets, [(ORDERS, 40)])
    overtaken.observe(ORDERS, 40)
    assert list(overtaken) == []
    overtaken.observe(ORDERS, 60)
    assert list(overtaken) == [Overtaken("returned", ORDERS, 20)]


def test_a_loss_is_logged_once_until_the_group_has_caught_up(
    offsets: OffsetStore, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "headrace.broker")
    commit(offsets, "slow", 0)
    overtaken = OvertakenGroups(offsets, [])
    for start in (10, 20, 30):
        overtaken.observe(ORDERS, start)
    (first,) = caplog.messages
    assert "group slow had not read 10 offsets of orders-0" in first
    commit(offsets, "slow", 35)
    overtaken.observe(ORDERS, 33)
    assert len(caplog.messages) == 1
    overtaken.observe(ORDERS, 50)
    assert len(caplog.messages) == 2
    assert list(overtaken) == [Overtaken("slow", ORDERS, 45)]


def test_a_group_or_topic_that_is_gone_is_shown_no_longer(offsets: OffsetStore):
    overtaken = OvertakenGroups(offsets, [])
    for group in ("deleted", "kept"):
        commit(offsets, group, 0)
    overtaken.observe(ORDERS, 7)
    offsets.delete_group("deleted")
    assert list(overtaken) == [Overtaken("kept", ORDERS, 7)]
    overtaken.forget_topic("orders")
    assert list(overtaken) == []
    overtaken.observe(ORDERS, 3)
    assert list(overtaken) == [Overtaken("kept", ORDERS, 3)]
