"""Whether the numbers agree: produced, stored, and consumed by every group."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.table import Table

from examples.shop.events import TOPICS


@dataclass(frozen=True, slots=True)
class GroupAccount:
    """What one group did, by its own ledger and by the offsets it committed."""

    name: str
    topics: Sequence[str]
    processed: Mapping[str, int]
    lag: int = 0
    missing: int = 0
    redelivered: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The accounts of a whole run, side by side."""

    produced: Mapping[str, int]
    """Events per topic that the broker acknowledged."""
    stored: Mapping[str, int]
    groups: Sequence[GroupAccount]
    revenue_cents: int
    """What the produced orders add up to."""
    counted_cents: int
    """What the analytics group found that they add up to."""
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Whether nothing was lost, doubled or refused."""
        return not list(self.problems())

    def problems(self) -> Iterator[str]:
        """Each disagreement, in words."""
        for reason, count in self.refused.items():
            yield f"{count:,} events were refused: {reason}"
        for topic in TOPICS:
            if self.stored[topic] != self.produced[topic]:
                yield (
                    f"{topic}: {self.produced[topic]:,} events were acknowledged, "
                    f"{self.stored[topic]:,} are stored"
                )
        for group in self.groups:
            yield from self._problems_of(group)
        if self.counted_cents != self.revenue_cents:
            yield (
                f"orders of {euros(self.revenue_cents)} were made, "
                f"analytics counted {euros(self.counted_cents)}"
            )

    def _problems_of(self, group: GroupAccount) -> Iterator[str]:
        for topic in group.topics:
            if group.processed[topic] != self.produced[topic]:
                yield (
                    f"{topic}: {self.produced[topic]:,} events were acknowledged, "
                    f"{group.name} processed {group.processed[topic]:,}"
                )
        if group.missing:
            yield f"{group.name} never saw {group.missing:,} events"
        if group.lag:
            yield f"{group.name} has not committed its last {group.lag:,} events"


def euros(cents: int) -> str:
    """An amount for people.

    >>> euros(1234567)
    '12,345.67 €'
    """
    return f"{cents / 100:,.2f} €"


def table(verdict: Verdict) -> Table:
    """The accounts as a table: a row per topic, a column per place where events were counted."""
    result = Table("topic", title="Every event, counted in each place", title_justify="left")
    for column in ("produced", "stored", *(f"by {group.name}" for group in verdict.groups)):
        result.add_column(column, justify="right")
    for topic in TOPICS:
        consumed = (
            f"{group.processed[topic]:,}" if topic in group.topics else ""
            for group in verdict.groups
        )
        result.add_row(
            topic, f"{verdict.produced[topic]:,}", f"{verdict.stored[topic]:,}", *consumed
        )
    result.add_section()
    result.add_row(
        "all",
        f"{sum(verdict.produced.values()):,}",
        f"{sum(verdict.stored.values()):,}",
        *(f"{sum(group.processed.values()):,}" for group in verdict.groups),
    )
    return result
