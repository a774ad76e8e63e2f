"""What the shop makes of its events: five pipelines in one flow, run by one Spark.

$ headrace run examples/shop/flows.py
"""

from headrace.streams import Flow
from headrace.streams.rows import Stream
from headrace.streams.time import Watermark
from headrace.streams.windows import session, tumbling

flow = Flow("shop")

ONE_TASK = {"parallelism": "1"}
"""What a small shop has in a batch is work for one task, however many cores and partitions."""

# What the database says: every change of its tables, as the capture tells it.
ORDER = (
    "id bigint, customer int, item string, quantity int, total_cents bigint, country string, "
    "status string, placed_at timestamp"
)
customers = flow.table(
    "shop.public.customers",
    "id int, name string, city string, country string",
    key="id",
    format="debezium",
    options=ONE_TASK,
)
rates = flow.table(
    "shop.public.tax_rates",
    "country string, since timestamp, percent int",
    key="country",
    valid_from="since",
    format="debezium",
    options=ONE_TASK,
)
order_changes = flow.stream(
    "shop.public.orders",
    ORDER,
    time="placed_at",
    watermark=Watermark(out_of_order="5 seconds", idle_after="5 seconds"),
    format="debezium",
    options={"unwrap": "true", **ONE_TASK},
)
placed = order_changes.where("_op in ('c', 'r')")


def told_by_devices(topic: str, columns: str) -> Stream:
    """The events of devices whose clocks are wrong, with the time at which they happened."""
    return flow.stream(
        topic,
        f"session string, customer int, device string, occurred timestamp, sent timestamp, "
        f"{columns}",
        include=["timestamp"],
        options=ONE_TASK,
    ).corrected_time(
        occurred="occurred",
        sent="sent",
        received="_timestamp",
        into="at",
        max_offset="1 day",
        watermark=Watermark(out_of_order="15 seconds", idle_after="5 seconds"),
    )


page_views = told_by_devices("page_views", "url string")
searches = told_by_devices("searches", "query string, results int").select("session", "query", "at")
clicks = told_by_devices("clicks", "query string, url string").select(
    "session", "query", "url", "at"
)

# Revenue per minute; who ordered in a tunnel corrects a minute that has been told. Customers and
# best sellers are counted by sketches.
per_minute = placed.window(
    tumbling("1 minute"), late="correct", lateness="30 minutes", emit="updates"
).agg(
    orders="count(*)",
    revenue_cents="sum(total_cents)",
    customers="approx_count_distinct(customer)",
    best_sellers="top_k(item, 5)",
)
flow.view("revenue_per_minute", per_minute.select("orders", "revenue_cents", "customers"))
flow.view("best_sellers", per_minute.select("best_sellers"))

# Which searches lead to a click, and which are abandoned: nobody has clicked for half a minute.
journeys = searches.join(
    clicks, on=["session", "query"], within=("0 s", "30 seconds"), how="left", suffix="_click"
)
click_through = journeys.window(
    tumbling("1 minute"), by="query", late="correct", lateness="30 minutes", emit="updates"
).agg(searches="count(*)", clicked="count(url)")
flow.view("click_through", click_through)

# Orders as they are now, with the customers who made them: served, and kept in a warehouse.
orders = (
    order_changes.lookup(customers, on={"customer": "id"}, suffix="_customer")
    .select(
        "id",
        "item",
        "quantity",
        "total_cents",
        "status",
        "placed_at",
        "name",
        "city",
        country="country_customer",
        change="_op",
    )
    .table(key="id", deleted="change = 'd'")
)
flow.view("orders", orders)
flow.sink("warehouse", orders, to="duckdb:///warehouse.duckdb", table="orders")

# Invoices have the tax of the day on which something was ordered, whatever it is today.
invoices = placed.lookup(rates, on="country", at="placed_at").select(
    "id",
    "customer",
    "total_cents",
    "country",
    "percent",
    "placed_at",
    tax_cents="cast(round(total_cents * percent / 100) as bigint)",
)
flow.view("invoices", invoices.table(key="id"))

# What somebody did without a pause of twenty seconds is one visit.
visits = page_views.window(session("20 seconds"), by=["customer", "device"]).agg(
    pages="count(*)", entered="first(url)", left="last(url)"
)
flow.view("visits", visits)
