"""A history, sorted by what the checker asks of it."""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from tests.chaos.history import (
    Delivered,
    End,
    Ended,
    Event,
    History,
    Isolation,
    Outcome,
    Poll,
    Record,
    Send,
    Session,
    Stuck,
)

E = TypeVar("E", bound=Event)


class Fate(StrEnum):
    """What is known of a transaction's end."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """Also if nobody ever asked for a commit."""
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Reading:
    """One session of a reader, and all that it read in it."""

    session: Session
    polls: list[Poll] = field(default_factory=list)

    def records(self) -> list[Record]:
        """All records, in the order in which they came."""
        return [record for poll in self.polls for record in poll.records]


class Observations:
    """Who wrote what, what became of it, and who read what."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sends = {event.value: event for event in self.of(Send)}
        self.deliveries = {event.value: event for event in self.of(Delivered)}
        self.ends = {event.transaction: event for event in self.of(End)}
        self.readings = self._readings()
        self.values_of: dict[str, list[str]] = defaultdict(list)
        for send in self.sends.values():
            if send.transaction is not None:
                self.values_of[send.transaction].append(send.value)
        self._held_back = {event.partition for event in self.of(Stuck)}
        self._ended = {event.transaction: event.outcome for event in self.of(Ended)}

    def of(self, kind: type[E]) -> list[E]:
        """All events of a kind."""
        return [event for event in self.history if isinstance(event, kind)]

    def fate(self, transaction: str) -> Fate:
        """What is known of a transaction's end."""
        end = self.ends.get(transaction)
        if end is None or not end.commit:
            return Fate.ABORTED
        match self._ended.get(transaction, Outcome.UNKNOWN):
            case Outcome.OK:
                return Fate.COMMITTED
            case Outcome.FAIL:
                return Fate.ABORTED
            case _:
                return Fate.UNKNOWN

    def acknowledged(self, value: str) -> bool:
        """Whether a record must be there for good."""
        transaction = self.sends[value].transaction
        committed = transaction is None or self.fate(transaction) is Fate.COMMITTED
        return committed and self.delivered(value)

    def delivered(self, value: str) -> bool:
        """Whether a record was written for sure, be it for good or not."""
        delivery = self.deliveries.get(value)
        return delivery is not None and delivery.outcome is Outcome.OK

    def reachable(self, value: str) -> bool:
        """Whether the last readers could get as far as to where a record stands.

        A transaction that hangs keeps them from everything behind it, which is not lost.
        """
        return self.sends[value].partition not in self._held_back

    def refused(self, value: str) -> bool:
        """Whether a record must not be seen by readers of committed records."""
        delivery = self.deliveries.get(value)
        if delivery is not None and delivery.outcome is Outcome.FAIL:
            return True
        transaction = self.sends[value].transaction
        return transaction is not None and self.fate(transaction) is Fate.ABORTED

    def final(self, isolation: Isolation) -> list[Record]:
        """All that was there in the end."""
        return [
            record
            for reading in self.readings
            if reading.session.final and reading.session.isolation is isolation
            for record in reading.records()
        ]

    def has_final(self, isolation: Isolation) -> bool:
        """Whether anybody looked in the end."""
        return any(
            reading.session.final and reading.session.isolation is isolation
            for reading in self.readings
        )

    def _readings(self) -> list[Reading]:
        readings: list[Reading] = []
        current: dict[str, Reading] = {}
        for event in self.history:
            if isinstance(event, Session):
                current[event.process] = Reading(event)
                readings.append(current[event.process])
            elif isinstance(event, Poll):
                current[event.process].polls.append(event)
        return readings
