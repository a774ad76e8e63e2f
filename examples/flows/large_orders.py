"""Large orders of a shop, as a topic of their own: a flow that `headrace run` runs.

$ headrace run examples/flows/large_orders.py --once
"""

from headrace.streams import Flow

flow = Flow("large-orders")

orders = flow.stream(
    "orders",
    "customer string, item string, quantity int, price double, at timestamp",
    time="at",
    dead_letters="broken-orders",
)
large = orders.with_columns(total="quantity * price").where("total >= 100")

flow.topic("large-orders", large, key="customer", timestamp="at", headers={"item": "item"})
