"""Reading again what was read before: `python -m examples.replay`.

Reading takes nothing out of a log. A program that adds up a shop's sales had a mistake in it and
has read everything; with the mistake mended, it goes back to the beginning and reads the same
orders again. Or it goes back to a time of day, if what was before that time is right.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Broker

TOPIC: Final = "sales"
GROUP: Final = "revenue"
MORNING: Final = (datetime.now(UTC) - timedelta(days=1)).replace(hour=9, minute=0, second=0)
NOON: Final = MORNING.replace(hour=12)
"""Of yesterday: what is older than a week, a topic forgets by default."""

SALES: Final = 360
"""One a minute, from nine to three."""

_TIMEOUT_SECONDS: Final = 30.0

Counting = Callable[[dict[str, int]], int]
"""What a sale brings, in cents."""


class Sums(NamedTuple):
    """What came out, reading after reading; amounts are cents."""

    wrong: int
    again: int
    """From offset 0, with the mistake mended."""

    since_noon: int


def mistaken(sale: dict[str, int]) -> int:
    """Forgets how many were sold."""
    return sale["price"]


def mended(sale: dict[str, int]) -> int:
    """What the customer paid."""
    return sale["price"] * sale["quantity"]


def sales() -> Iterator[tuple[datetime, dict[str, int]]]:
    """What was sold, and when."""
    for minute in range(SALES):
        yield (
            MORNING + timedelta(minutes=minute),
            {"price": 100 + minute, "quantity": 1 + minute % 3},
        )


def replay(bootstrap: str) -> Sums:
    """Sell, add up wrongly, and then twice more as it should be."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for at, sale in sales():
        producer.produce(TOPIC, json.dumps(sale), timestamp=_milliseconds(at))
    producer.flush()
    wrong = _added_up(bootstrap, mistaken)
    _go_back(bootstrap, TopicPartition(TOPIC, 0, 0))
    again = _added_up(bootstrap, mended)
    with closing(_consumer(bootstrap)) as consumer:
        wanted = TopicPartition(TOPIC, 0, _milliseconds(NOON))
        (at_noon,) = consumer.offsets_for_times([wanted], _TIMEOUT_SECONDS)
    _go_back(bootstrap, at_noon)
    return Sums(wrong, again, _added_up(bootstrap, mended))


def _go_back(bootstrap: str, place: TopicPartition) -> None:
    """Have the group begin there: `headrace groups reset` does the same by hand."""
    with closing(_consumer(bootstrap)) as consumer:
        consumer.commit(offsets=[place], asynchronous=False)


def _added_up(bootstrap: str, counted: Counting) -> int:
    """What is left for the group to read, added up; the group is then at the end."""
    total = 0
    with closing(_consumer(bootstrap)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        while (message := consumer.poll(_TIMEOUT_SECONDS)) is not None and message.error() is None:
            total += counted(json.loads(message.value() or b""))
        consumer.commit(asynchronous=False)
    return total


def _consumer(bootstrap: str) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,  # the end is told, as a message with an error
    }
    return Consumer(settings)


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def main() -> None:
    """Show it."""
    with Broker(flush="os") as broker:
        sums = replay(broker.bootstrap)
    print(f"{SALES} sales, added up with a mistake:    {sums.wrong / 100:10,.2f} €")
    print(f"read again from the beginning, mended: {sums.again / 100:10,.2f} €")
    print(f"and of these, since noon:              {sums.since_noon / 100:10,.2f} €")


if __name__ == "__main__":
    main()
