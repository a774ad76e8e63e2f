"""Whether the numbers agree: the orders in the database, in the views, and in the warehouse."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Account:
    """The orders as one place knows them."""

    orders: int
    total_cents: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The accounts of all places, side by side."""

    database: Account
    others: Mapping[str, Account]

    @property
    def agrees(self) -> bool:
        """Whether there are orders, and all places know all of them and nothing else."""
        return not list(self.problems())

    def problems(self) -> Iterator[str]:
        """Each disagreement, in words."""
        if not self.database.orders:
            yield "nobody has ordered anything, so nothing is proved; give it more time"
        for place, account in self.others.items():
            if account != self.database:
                yield f"{place}: {_shown(account)}, and not {_shown(self.database)}"


def table(verdict: Verdict) -> Table:
    """The accounts as a table, a row per place."""
    result = Table("orders, counted in", title="Every order, in each place", title_justify="left")
    result.add_column("orders", justify="right")
    result.add_column("worth", justify="right")
    for place, account in {"Postgres": verdict.database, **verdict.others}.items():
        result.add_row(place, f"{account.orders:,}", euros(account.total_cents))
    return result


def euros(cents: int) -> str:
    """An amount for people.

    >>> euros(1234567)
    '12,345.67 €'
    """
    return f"{cents / 100:,.2f} €"


def _shown(account: Account) -> str:
    return f"{account.orders:,} orders of {euros(account.total_cents)}"
