"""Who gets which event: `python -m examples.fan_out`.

Two departments of a shop read its orders. Each of them gets every order: that is fan-out, and it
takes nothing but a consumer group per department. The warehouse has two packers in its group, who
share the orders between them: that is load balancing. Orders of one customer always come to the
same packer, in their order. When one packer goes home, the other one gets the rest.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, Self

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker

TOPIC: Final = "orders"
PARTITIONS: Final = 4
ORDERS: Final = 200
CUSTOMERS: Final = 40

_PATIENCE_SECONDS: Final = 60.0


class Member:
    """One reader in a department's group, in a thread of its own, until the block ends."""

    def __init__(self, bootstrap: str, department: str, name: str) -> None:
        self.name = name
        self.received: list[str] = []
        """The orders that came to this member."""
        self.partitions = 0
        """How many partitions are this member's share at the moment."""
        self._over = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": department,
                "client.id": name,
                "auto.offset.reset": "earliest",
            }
        )
        self._thread = threading.Thread(target=self._read, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()

    def _read(self) -> None:
        self._consumer.subscribe([TOPIC])
        while not self._over.is_set():
            message = self._consumer.poll(0.05)
            self.partitions = len(self._consumer.assignment())
            if message is not None and message.error() is None:
                self.received.append((message.value() or b"").decode())
        # Says goodbye, with what was read: the others take over at once, and where this one ended.
        self._consumer.close()


def order(bootstrap: str, first: int) -> None:
    """Have customers place orders; the customer is the key, and decides about the partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + ORDERS):
        customer = f"customer-{number % CUSTOMERS}"
        producer.produce(TOPIC, key=customer, value=f"{customer} {number}")
    producer.flush()


def fan_out(bootstrap: str, say: Callable[[str], None]) -> dict[str, list[str]]:
    """Play it on a cluster; gives what every member got, by the member's name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(_PATIENCE_SECONDS)
    with ExitStack() as departments:
        statistics = departments.enter_context(Member(bootstrap, "statistics", "statistician"))
        ada = departments.enter_context(Member(bootstrap, "warehouse", "Ada"))
        with Member(bootstrap, "warehouse", "Bob") as bob:
            members = (statistics, ada, bob)
            _until(lambda: [each.partitions for each in members] == [PARTITIONS, 2, 2])
            order(bootstrap, first=0)
            _until(lambda: len(statistics.received) == ORDERS == _got(ada, bob))
            say(f"{ORDERS} orders: {_shown(statistics)} for statistics;")
            say(f"the warehouse shares them: {_shown(ada)}, {_shown(bob)}.")
        _until(lambda: ada.partitions == PARTITIONS)
        before = len(ada.received)
        order(bootstrap, first=ORDERS)
        _until(lambda: len(statistics.received) == 2 * ORDERS == _got(ada, bob))
        say(f"Bob goes home. Of the next {ORDERS}, Ada gets {len(ada.received) - before}.")
    return {each.name: each.received for each in members}


def twice(received: list[str]) -> list[str]:
    """The orders that came more than once."""
    return [order for order, often in Counter(received).items() if often > 1]


def _got(*members: Member) -> int:
    return sum(len(each.received) for each in members)


def _shown(member: Member) -> str:
    return f"{len(member.received)} to {member.name}"


def _until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("the members of the groups did not get there")
        time.sleep(0.02)


def main() -> None:
    """Show it."""
    with Broker(flush="os") as broker:
        received = fan_out(broker.bootstrap, print)
    packed = received["Ada"] + received["Bob"]
    print(f"In the end, {len(twice(packed))} orders were packed twice, and none was forgotten.")


if __name__ == "__main__":
    main()
