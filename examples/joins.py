"""The four joins, on one small shop: `python -m examples.joins`.

- Stream with stream: which search led to a click, and which to none.
- Stream with table: who it was that clicked.
- Stream with the past of a table: the tax that held when something was sold, not today's.
- Table with table: orders with the address of their customer, right also after the customer moves.
"""

from typing import TYPE_CHECKING, Any, Final

from headrace.streams import Flow
from headrace.streams.time import Watermark
from headrace.testing import FlowHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOON: Final = Watermark(out_of_order="10 seconds", idle_after="1 minute")

Rows = list[dict[str, Any]]


def shop() -> Flow:
    """All four."""
    flow = Flow("shop")
    searches = flow.stream(
        "searches", "session string, query string, at timestamp", time="at", watermark=SOON
    )
    clicks = flow.stream(
        "clicks", "session string, user int, url string, at timestamp", time="at", watermark=SOON
    )
    sales = flow.stream(
        "sales", "country string, price int, at timestamp", time="at", watermark=SOON
    )
    users = flow.table("users", "user int, name string, city string", key="user")
    rates = flow.table(
        "rates", "country string, tax int, since timestamp", key="country", valid_from="since"
    )
    orders = flow.table("orders", "id int, user int, item string", key="id")

    journeys = searches.join(clicks, on="session", within=("0 s", "5 minutes"), how="left")
    flow.topic("journeys", journeys.select("query", "url"))
    flow.topic("visitors", clicks.lookup(users, on="user").select("url", "name", "city"))
    flow.topic("invoices", sales.lookup(rates, on="country", at="at").select("at", "price", "tax"))
    flow.topic("parcels", orders.join(users, on="user").select("item", "name", "city"))
    return flow


def play(spark: "SparkSession | None" = None) -> dict[str, Rows]:
    """What the four say, by their names."""
    with FlowHarness(shop(), spark=spark, now=_at("09:00")) as harness:
        harness.send("users", {"user": 1, "name": "Ada", "city": "London"})
        harness.send(
            "rates",
            {"country": "DE", "tax": 19, "since": _at("00:00")},
            {"country": "DE", "tax": 16, "since": _at("10:00")},
        )
        harness.send("orders", {"id": 7, "user": 1, "item": "tent"})
        harness.step()
        harness.send("searches", {"session": "a", "query": "tent", "at": _at("09:00")})
        harness.send("searches", {"session": "b", "query": "boat", "at": _at("09:01")})
        click = {"session": "a", "user": 1, "url": "/tent", "at": _at("09:02")}
        harness.send("clicks", click)
        for time in ("10:05", "09:55"):
            harness.send("sales", {"country": "DE", "price": 100, "at": _at(time)})
        harness.step()
        harness.send("users", {"user": 1, "name": "Ada", "city": "Paris"})
        for _ in range(2):
            # Nobody says anything for so long that the clock tells how far time has come.
            harness.advance("10 minutes")
            harness.step()
        outputs = ("journeys", "visitors", "invoices", "parcels")
        return {name: harness.rows(name) for name in outputs}


def _at(time: str) -> str:
    return f"2026-01-01T{time}:00Z"


def main() -> None:
    """Show what each of them says."""
    said = play()
    for row in said["journeys"]:
        print(f"search for {row['query']}: {row.get('url') or 'nobody clicked'}")
    for row in said["visitors"]:
        print(f"{row['url']} was clicked by {row['name']}, who lives in {row['city']}")
    for row in said["invoices"]:
        print(f"sold for {row['price']} at {row['at'][11:16]}: tax {row['tax']} %")
    for row in said["parcels"]:
        print(f"the {row['item']} goes to {row['name']} in {row['city']}")


if __name__ == "__main__":
    main()
