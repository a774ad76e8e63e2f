"""The flows that the harness is tested with."""

from typing import TYPE_CHECKING

from headrace.streams import Flow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDERS = "customer string, price double, at timestamp"


def large_orders(minimum: str = "100") -> Flow:
    """One stream, with dead letters, into one topic."""
    flow = Flow("shop")
    orders = flow.stream("orders", ORDERS, time="at", dead_letters="broken-orders")
    large = orders.where(f"price >= {minimum}").select("customer", "price")
    flow.topic("large-orders", large, key="customer")
    return flow


def counted_orders(name: str = "counts") -> Flow:
    """A stateful operator of Spark's own, and the rows as they are beside it."""

    def count(orders: "DataFrame") -> "DataFrame":
        return orders.groupBy("customer").count()

    flow = Flow(name)
    orders = flow.stream("orders", "customer string, price double")
    flow.topic("counts", orders.pipe(count), key="customer")
    flow.topic("prices", orders.select("price"))
    return flow


def customers() -> Flow:
    """A table, copied as far as it is about people who are grown up."""
    flow = Flow("people")
    users = flow.table("users", "id bigint, name string, age int", key="id")
    flow.topic("grown-up", users.where("age > 17").select("name"))
    return flow


def payments() -> Flow:
    """Two sources that meet in one query."""
    flow = Flow("payments")
    orders = flow.stream("orders", "id bigint, price double")
    paid = flow.stream("payments", "order_id bigint, amount double")

    def with_payment(rows: "DataFrame") -> "DataFrame":
        amounts = paid.df
        return rows.join(amounts, rows.id == amounts.order_id)

    flow.topic("paid", orders.pipe(with_payment).select("id", "price", "amount"))
    return flow
