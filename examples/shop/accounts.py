"""Counting the orders, in every place that has them."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import psycopg2

from examples.shop.opening import Premises
from examples.shop.verdict import Account, Verdict

_COUNT: Final = "SELECT count(*), coalesce(sum(total_cents), 0) FROM orders"
_ROWS_AT_A_TIME: Final = 10_000
_TIMEOUT_SECONDS: Final = 20.0


def in_all(premises: Premises) -> Verdict:
    """What everybody says who can be asked while the shop runs."""
    return Verdict(in_database(premises), in_views(premises))


def in_database(premises: Premises) -> Account:
    """What the system of record says."""
    connection = psycopg2.connect(premises.database, connect_timeout=5)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(_COUNT)
        return _account(cursor.fetchone())


def in_views(premises: Premises) -> dict[str, Account]:
    """What the views say: of orders, of invoices, and of minutes."""
    orders, invoices = (list(_rows(premises, name)) for name in ("orders", "invoices"))
    minutes = list(_rows(premises, "revenue_per_minute"))
    return {
        "the view of orders": Account(len(orders), _sum(orders, "total_cents")),
        "the view of invoices": Account(len(invoices), _sum(invoices, "total_cents")),
        "revenue per minute, added up": Account(
            _sum(minutes, "orders"), _sum(minutes, "revenue_cents")
        ),
    }


def in_warehouse(premises: Premises) -> Account:
    """What DuckDB says, when nobody writes to it any more."""
    import duckdb

    with duckdb.connect(str(premises.warehouse), read_only=True) as connection:
        return _account(connection.execute(_COUNT).fetchone())


def _rows(premises: Premises, view: str) -> Iterator[dict[str, Any]]:
    """All rows of a view, page by page, as they were at one moment."""
    wanted: dict[str, str | int] = {"limit": _ROWS_AT_A_TIME}
    while True:
        address = f"http://{premises.views}/views/{view}?{urlencode(wanted)}"
        with urlopen(address, timeout=_TIMEOUT_SECONDS) as answer:
            page = json.load(answer)
        yield from (each["row"] for each in page["rows"])
        if page["next"] is None:
            return
        wanted["cursor"] = page["next"]


def _sum(rows: list[dict[str, Any]], column: str) -> int:
    return sum(row[column] for row in rows)


def _account(row: Any) -> Account:
    orders, total = row
    return Account(int(orders), int(total))
