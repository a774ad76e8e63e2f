"""A program that is killed between its two steps: `python -m examples.exactly_once`.

It reads orders and writes an invoice for each. Reading and writing are two steps: it notes how far
it has read after it has written. Killed in between, it writes the same invoices again when it comes
back; with the note first, they would be missing. If both are one transaction, neither happens: the
invoices and the note are there together, or not at all.

A thousand orders, and a program that dies again and again; first without transactions, then with.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from headrace import Broker

ORDERS: Final = 1000
AT_A_TIME: Final = 200
DIES: Final = 0.3
"""How often the program is killed between writing and noting."""

_TIMEOUT_SECONDS: Final = 30.0


class Killed(Exception):
    """The program is no more."""


class Outcome(NamedTuple):
    """What whoever pays the invoices finds."""

    deaths: int
    missing: int
    twice: int


class Invoicing:
    """The program: orders become invoices, some at a time, until there is nothing to read."""

    def __init__(self, bootstrap: str, name: str, random: Random, *, transactions: bool) -> None:
        settings: dict[str, str | int | bool] = {"bootstrap.servers": bootstrap}
        self._consumer = Consumer(
            settings
            | {
                "group.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        if transactions:
            settings |= {"transactional.id": name}
        self._producer = Producer(settings)
        self._transactions = transactions
        self._invoices = f"invoices-{name}"
        self._random = random

    def run(self) -> None:
        """Work until everything is invoiced, or until it is killed."""
        with closing(self._consumer):
            if self._transactions:
                # Whatever a predecessor of this name left open is undone, and it cannot go on.
                self._producer.init_transactions()
            # Where the predecessor got to is what it has noted, and nothing else.
            self._consumer.assign([TopicPartition("orders", 0)])
            while orders := list(self._orders()):
                if self._transactions:
                    self._producer.begin_transaction()
                for order in orders:
                    self._producer.produce(self._invoices, order.value())
                self._producer.flush()
                if self._random.random() < DIES:
                    raise Killed
                self._note(TopicPartition("orders", 0, (orders[-1].offset() or 0) + 1))

    def _note(self, read_to: TopicPartition) -> None:
        if self._transactions:
            group = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([read_to], group)
            self._producer.commit_transaction()
        else:
            self._consumer.commit(offsets=[read_to], asynchronous=False)

    def _orders(self) -> Iterator[Message]:
        for _ in range(AT_A_TIME):
            message = self._consumer.poll(_TIMEOUT_SECONDS)
            if message is None or message.error() is not None:
                return
            yield message


def place_orders(bootstrap: str) -> None:
    """A thousand of them."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(ORDERS):
        producer.produce("orders", json.dumps({"order": number}))
    producer.flush()


def invoice(bootstrap: str, name: str, *, transactions: bool) -> Outcome:
    """Run the program again whenever it has died, and count what it leaves behind."""
    random, deaths = Random(7), 0
    while True:
        try:
            Invoicing(bootstrap, name, random, transactions=transactions).run()
            break
        except Killed:
            deaths += 1
    often = Counter(_read(bootstrap, f"invoices-{name}"))
    return Outcome(deaths, ORDERS - len(often), sum(each - 1 for each in often.values()))


def _read(bootstrap: str, topic: str) -> Iterator[int]:
    """The orders that there are invoices for, as a reader of committed records sees them."""
    settings: dict[str, str | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": "accounting",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(_TIMEOUT_SECONDS)) is not None and message.error() is None:
            yield json.loads(message.value() or b"")["order"]


def main() -> None:
    """Show both."""
    with Broker(flush="os") as broker:
        place_orders(broker.bootstrap)
        for name, transactions in (("without", False), ("with", True)):
            found = invoice(broker.bootstrap, name, transactions=transactions)
            print(
                f"{name + ' transactions:':22}{ORDERS} orders, killed {found.deaths} times: "
                f"{found.missing} invoices missing, {found.twice} too many",
                flush=True,
            )


if __name__ == "__main__":
    main()
