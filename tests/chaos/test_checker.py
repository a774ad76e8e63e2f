"""The checker names each broken promise, and none where a correct log could look like that."""

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import Promise, check
from tests.chaos.history import (
    Calm,
    Committed,
    Delivered,
    End,
    Ended,
    Event,
    Isolation,
    Misled,
    Outcome,
    Poll,
    Record,
    Resumed,
    Send,
    Session,
    Stuck,
    Watermark,
    read_history,
    write_history,
)

COMMITTED, UNCOMMITTED = Isolation.COMMITTED, Isolation.UNCOMMITTED


class Story:
    """A history in the making; every event happens a second after the one before."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, kind: type[Event], process: str, *details: Any, **more: Any) -> None:
        self.events.append(kind(float(len(self.events)), process, *details, **more))

    def send(self, value: str, partition: int = 0, *, by: str = "p", within: str | None = None):
        self.add(Send, by, value, partition, within)

    def write(
        self,
        value: str,
        offset: int | None,
        outcome: Outcome = Outcome.OK,
        partition: int = 0,
        *,
        by: str = "p",
        within: str | None = None,
    ) -> None:
        self.send(value, partition, by=by, within=within)
        self.add(Delivered, by, value, outcome, offset)

    def end(self, transaction: str, outcome: Outcome | None, *, commit: bool = True) -> None:
        self.add(End, "p", transaction, commit)
        if outcome is not None:
            self.add(Ended, "p", transaction, outcome)

    def read(
        self,
        *records: tuple[int, int, str],
        isolation: Isolation = COMMITTED,
        by: str = "c",
        final: bool = False,
    ) -> None:
        self.add(Session, by, isolation, (0, 1), final)
        self.add(Poll, by, tuple(Record(*record) for record in records))

    def finally_there(self, *records: tuple[int, int, str]) -> None:
        self.read(*records, by="final", final=True)
        self.read(*records, isolation=UNCOMMITTED, by="last", final=True)

    def promises(self) -> set[Promise]:
        return {anomaly.promise for anomaly in check(self.events)}


@pytest.fixture
def story() -> Story:
    return Story()


def test_nothing_is_wrong_with_a_record_that_is_written_and_read(story: Story) -> None:
    story.write("a", 0)
    story.read((0, 0, "a"))
    story.finally_there((0, 0, "a"))
    assert story.promises() == set()


def test_an_acknowledged_record_that_is_not_there_is_lost(story: Story) -> None:
    story.write("a", 0)
    story.finally_there()
    assert story.promises() == {Promise.LOST_WRITE}


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.FAIL])
def test_a_record_without_acknowledgement_may_be_missing(story: Story, outcome: Outcome) -> None:
    story.write("a", None, outcome)
    story.send("b")
    story.finally_there()
    assert story.promises() == set()


def test_a_record_of_unknown_outcome_may_be_there(story: Story) -> None:
    story.write("a", None, Outcome.UNKNOWN)
    story.finally_there((0, 0, "a"))
    assert story.promises() == set()


def test_a_record_that_was_refused_must_not_be_there(story: Story) -> None:
    story.write("a", None, Outcome.FAIL)
    story.finally_there((0, 0, "a"))
    assert story.promises() == {Promise.ABORTED_READ}


def test_what_somebody_read_must_not_vanish(story: Story) -> None:
    story.send("a")
    story.read((0, 0, "a"))
    story.finally_there()
    assert story.promises() == {Promise.VANISHED_READ}


def test_uncommitted_reads_of_an_aborted_transaction_stay_for_readers_of_their_kind(
    story: Story,
) -> None:
    story.write("a", 0, within="t")
    story.end("t", Outcome.OK, commit=False)
    story.read((0, 0, "a"), isolation=UNCOMMITTED)
    story.read(by="final", final=True)
    story.read((0, 0, "a"), isolation=UNCOMMITTED, by="last", final=True)
    assert story.promises() == set()


def test_a_record_at_two_offsets_is_a_duplicate(story: Story) -> None:
    story.write("a", 0)
    story.finally_there((0, 0, "a"), (0, 1, "a"))
    assert story.promises() == {Promise.DUPLICATE}


def test_a_record_of_an_aborted_transaction_must_not_be_read(story: Story) -> None:
    story.write("a", 0, within="t")
    story.end("t", Outcome.OK, commit=False)
    story.finally_there((0, 0, "a"))
    assert story.promises() == {Promise.ABORTED_READ}


def test_a_transaction_that_nobody_ended_counts_as_aborted(story: Story) -> None:
    story.write("a", 0, within="t")
    story.finally_there((0, 0, "a"))
    assert story.promises() == {Promise.ABORTED_READ}


def test_a_refused_commit_counts_as_aborted(story: Story) -> None:
    story.write("a", 0, within="t")
    story.end("t", Outcome.FAIL)
    story.finally_there((0, 0, "a"))
    assert story.promises() == {Promise.ABORTED_READ}


def test_a_read_before_the_commit_is_dirty(story: Story) -> None:
    story.write("a", 0, within="t")
    story.read((0, 0, "a"))
    story.end("t", Outcome.OK)
    story.finally_there((0, 0, "a"))
    assert story.promises() == {Promise.DIRTY_READ}


def test_a_read_while_the_commit_is_under_way_is_not_dirty(story: Story) -> None:
    story.write("a", 0, within="t")
    story.end("t", None)
    story.read((0, 0, "a"))
    story.finally_there((0, 0, "a"))
    assert story.promises() == set()


def test_readers_of_everything_may_read_before_the_commit(story: Story) -> None:
    story.write("a", 0, within="t")
    story.read((0, 0, "a"), isolation=UNCOMMITTED)
    story.end("t", Outcome.OK)
    story.finally_there((0, 0, "a"))
    assert story.promises() == set()


def test_a_committed_transaction_with_a_part_missing_is_torn(story: Story) -> None:
    story.write("a", 0, within="t")
    story.write("b", 0, within="t", partition=1)
    story.end("t", Outcome.OK)
    story.finally_there((0, 0, "a"))
    assert story.promises() == {Promise.TORN_TRANSACTION, Promise.LOST_WRITE}


def test_a_transaction_of_unknown_outcome_may_be_there_or_not_but_not_in_part(
    story: Story,
) -> None:
    for name in ("there", "gone", "torn"):
        story.write(f"{name} a", None, within=name)
        story.write(f"{name} b", None, within=name, partition=1)
        story.end(name, Outcome.UNKNOWN)
    story.finally_there((0, 0, "there a"), (1, 0, "there b"), (1, 1, "torn b"))
    (anomaly,) = check(story.events)
    assert anomaly.promise is Promise.TORN_TRANSACTION
    assert "torn b is there and torn a is not" in anomaly.evidence


def test_a_record_that_nobody_sent_must_not_be_read(story: Story) -> None:
    story.finally_there((0, 0, "ghost"))
    assert story.promises() == {Promise.UNWRITTEN_READ}


def test_records_of_a_producer_keep_their_order(story: Story) -> None:
    story.write("a", None)
    story.write("b", None)
    story.finally_there((0, 0, "b"), (0, 1, "a"))
    assert story.promises() == {Promise.REORDERED}


def test_records_of_two_producers_or_partitions_have_no_order(story: Story) -> None:
    story.write("a", 1)
    story.write("b", 0, by="q")
    story.write("c", 0, partition=1)
    story.finally_there((0, 0, "b"), (0, 1, "a"), (1, 0, "c"))
    assert story.promises() == set()


def test_two_readers_must_agree_on_an_offset(story: Story) -> None:
    story.send("a")
    story.send("b", by="q")
    story.read((0, 0, "a"))
    story.read((0, 0, "b"), by="d")
    assert story.promises() == {Promise.CONTRADICTION}


def test_an_acknowledged_offset_must_hold_that_record(story: Story) -> None:
    story.write("a", 0)
    story.write("b", 0, by="q")
    assert story.promises() == {Promise.CONTRADICTION}


def test_the_end_of_a_partition_never_falls(story: Story) -> None:
    for end in (3, 5, 4):
        story.add(Watermark, "w", COMMITTED, 0, end)
    assert story.promises() == {Promise.OFFSET_WENT_BACK}


def test_a_producer_is_given_rising_offsets(story: Story) -> None:
    story.write("a", 5)
    story.write("b", 4)
    assert story.promises() == {Promise.OFFSET_WENT_BACK}


def test_a_reader_must_not_lose_its_place(story: Story) -> None:
    story.add(Misled, "c", "offset out of range")
    assert story.promises() == {Promise.OFFSET_WENT_BACK}


def test_a_reader_is_not_sent_back(story: Story) -> None:
    story.write("a", 0)
    story.write("b", 1)
    story.read((0, 1, "b"), (0, 0, "a"))
    story.finally_there((0, 0, "a"), (0, 1, "b"))
    assert story.promises() == {Promise.NONMONOTONIC_POLL}


def test_a_new_session_may_begin_anywhere(story: Story) -> None:
    story.write("a", 0)
    story.write("b", 1)
    story.read((0, 1, "b"))
    story.read((0, 0, "a"))
    story.finally_there((0, 0, "a"), (0, 1, "b"))
    assert story.promises() == set()


def test_a_reader_must_not_pass_a_record_by(story: Story) -> None:
    for offset, value in enumerate("abc"):
        story.write(value, offset)
    story.read((0, 0, "a"), (0, 2, "c"))
    story.finally_there((0, 0, "a"), (0, 1, "b"), (0, 2, "c"))
    assert story.promises() == {Promise.SKIPPED_READ}


def test_a_group_goes_on_where_it_committed(story: Story) -> None:
    story.add(Committed, "c", "g", 0, 7, Outcome.OK)
    story.add(Resumed, "d", "g", 0, 3, asked=0.5)
    assert story.promises() == {Promise.LOST_COMMIT}


def test_a_commit_that_came_after_the_question_or_failed_does_not_count(story: Story) -> None:
    story.add(Committed, "c", "g", 0, 6, Outcome.UNKNOWN)
    story.add(Committed, "c", "g", 0, 7, Outcome.OK)
    story.add(Resumed, "d", "g", 0, 3, asked=0.5)
    assert story.promises() == set()


def test_a_transaction_must_not_hold_readers_back_for_ever(story: Story) -> None:
    story.add(Calm, "run", 5.0)
    story.add(Stuck, "run", "the last stable offset is still 3 of 9", 0)
    assert story.promises() == {Promise.HANGING_TRANSACTION}


def test_what_stands_behind_a_hanging_transaction_is_not_lost(story: Story) -> None:
    story.write("a", 5)
    story.write("b", 6, partition=1, within="t")
    story.write("c", 7, within="t")
    story.end("t", Outcome.OK)
    story.add(Stuck, "run", "the last stable offset is still 3 of 9", 0)
    story.finally_there((1, 6, "b"))
    assert story.promises() == {Promise.HANGING_TRANSACTION}


def test_the_broker_must_serve_after_the_faults(story: Story) -> None:
    story.add(Stuck, "run", "no record was acknowledged within 30 s")
    assert story.promises() == {Promise.UNAVAILABLE}


def test_a_history_survives_its_file(story: Story, tmp_path: Path) -> None:
    story.write("a", 0, within="t")
    story.end("t", Outcome.OK)
    story.read((0, 0, "a"))
    story.add(Resumed, "d", "g", 0, 3, asked=0.5)
    write_history(tmp_path / "history.jsonl", story.events)
    assert read_history(tmp_path / "history.jsonl") == story.events
