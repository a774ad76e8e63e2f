"""The life of one query: tried again after a pause, given up at last, ended between batches."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.kafka.errors import ClusterUnreachable
from headrace.streams import Flow
from headrace.streams.running.backoff import Backoff
from headrace.streams.running.checkpoints import checkpoint_of
from headrace.streams.running.gate import BatchGate, Closed
from headrace.streams.running.places import LocalPlace
from headrace.streams.running.progress import QueryState
from headrace.streams.running.query import Policy, Prepared, QueryRun

Attempt = Callable[["Writer"], None]


class Query:
    """Spark's query, which here has always just ended."""

    lastProgress = None  # noqa: N815 - Spark's name
    isActive = False  # noqa: N815 - Spark's name

    def __init__(self, attempt: Attempt, writer: "Writer") -> None:
        self._attempt = attempt
        self._writer = writer

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802 - Spark's name
        self._attempt(self._writer)
        return True

    def stop(self) -> None:
        pass


class Writer:
    """Spark's writer: each start is the next of the attempts that a test describes."""

    def __init__(self, attempts: Iterator[Attempt]) -> None:
        self._attempts = attempts
        self.batch: Callable[[Any, int], None]

    def foreachBatch(self, function: Callable[[Any, int], None]) -> "Writer":  # noqa: N802
        self.batch = function
        return self

    def start(self) -> Query:
        return Query(next(self._attempts), self)

    def __getattr__(self, name: str) -> Callable[..., "Writer"]:
        return lambda *args, **kwargs: self


class Rows:
    """A DataFrame of which only the writer is asked for."""

    def __init__(self, *attempts: Attempt) -> None:
        self.writeStream = Writer(iter(attempts))

    def mapInArrow(self, function: object, schema: str) -> "Rows":  # noqa: N802 - Spark's name
        return self


def fails(error: Exception) -> Attempt:
    def attempt(writer: Writer) -> None:
        raise error

    return attempt


def succeeds(writer: Writer) -> None:
    pass


class Case:
    """A query run with scripted attempts, and what it said."""

    def __init__(
        self,
        directory: Path,
        *attempts: Attempt,
        tries: int = 3,
        reachable: Callable[[], bool] = lambda: True,
    ) -> None:
        flow = Flow("shop")
        flow.topic("large", flow.stream("orders", "x int"))
        output = flow.outputs[0]
        checkpoint = checkpoint_of(flow.name, output, LocalPlace(directory))
        rows: Any = Rows(*attempts)
        sink: Any = None
        self.said: list[str] = []
        self.run = QueryRun(
            Prepared("shop", output, rows, sink, checkpoint),
            Policy(tries, Backoff(1, 4), once=True, reachable=reachable),
            self.said.append,
        )
        self.run.start()
        assert self.run.wait(10)


def test_a_query_that_fails_is_tried_again(tmp_path: Path):
    case = Case(tmp_path, fails(ValueError("full")), fails(ValueError("full")), succeeds)
    now = case.run.tally.now
    assert (now.state, now.restarts, now.error) == (QueryState.FINISHED, 2, "full")
    assert case.said == [
        "shop.large failed: full (next try in 0.001 s)",
        "shop.large failed: full (next try in 0.002 s)",
    ]


def test_after_so_many_tries_it_is_given_up(tmp_path: Path):
    case = Case(tmp_path, *[fails(ValueError("full"))] * 3)
    assert case.run.tally.now.state is QueryState.GIVEN_UP
    assert case.run.cause is not None
    assert case.run.cause.message.startswith("shop.large is given up after 3 tries: full (")


def test_a_cluster_that_is_away_is_waited_for(tmp_path: Path):
    away = fails(ClusterUnreachable("one:9092", "refused"))
    case = Case(tmp_path, *[away] * 7, succeeds)
    assert case.run.tally.now.state is QueryState.FINISHED
    assert case.run.tally.now.restarts == 7


def test_an_outage_uses_up_none_of_a_batchs_tries(tmp_path: Path):
    away = fails(ClusterUnreachable("one:9092", "refused"))
    poison = fails(ValueError("full"))
    case = Case(tmp_path, *[away] * 40, poison, *[away] * 40, poison, succeeds)
    assert case.run.tally.now.state is QueryState.FINISHED
    case = Case(tmp_path, poison, *[away] * 40, poison, away, poison)
    assert case.run.cause is not None
    assert case.run.cause.message.startswith("shop.large is given up after 3 tries: full (")


def test_whatever_fails_while_the_cluster_is_away_is_not_the_batchs_fault(tmp_path: Path):
    answers = iter([False] * 40 + [True] * 3)
    attempts = [fails(ValueError("half of an answer"))] * 43
    case = Case(tmp_path, *attempts, reachable=lambda: next(answers))
    assert case.run.cause is not None
    assert case.run.tally.now.restarts == 42


def test_pauses_stop_growing_in_a_long_outage(tmp_path: Path):
    away = fails(ClusterUnreachable("one:9092", "refused"))
    case = Case(tmp_path, *[away] * 5, succeeds)
    pauses = [line.rpartition("next try in ")[2] for line in case.said]
    assert pauses == ["0.001 s)", "0.002 s)", *["0.004 s)"] * 3]


def test_tries_are_counted_per_batch(tmp_path: Path):
    def batch(number: int) -> Attempt:
        def attempt(writer: Writer) -> None:
            # There is no sink, so every batch that begins fails.
            writer.batch(None, number)

        return attempt

    case = Case(tmp_path, batch(0), batch(0), batch(1), batch(1), batch(2), succeeds)
    assert case.run.tally.now.state is QueryState.FINISHED
    case = Case(tmp_path, batch(4), batch(4), batch(4))
    assert case.run.cause is not None
    assert "batch 4 reads an unknown range" in case.run.cause.message


def test_a_gate_that_closes_waits_for_the_batch_inside():
    gate = BatchGate()
    events: list[str] = []

    def close() -> None:
        gate.close()
        events.append("closed")

    with gate.batch(1):
        closing = threading.Thread(target=close)
        closing.start()
        closing.join(0.05)
        events.append("batch done")
    closing.join(10)
    assert events == ["batch done", "closed"]
    with pytest.raises(Closed), gate.batch(2):
        pass
    assert gate.entered == 1
