"""A log that remembers only the last of each key: `python -m examples.compaction`.

A shop tells every change of a price. Whoever wants to know what things cost now has to read all of
it, though most of it has been overtaken. A compacted topic forgets what was overtaken, and nothing
else: the table that one gets by reading is the same before and after, and the offsets of what is
left are, too. A record without a value takes its key away.
"""

import time
from contextlib import closing
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker

TOPIC: Final = "prices"
PRODUCTS: Final = 20
CHANGES: Final = 50
"""How often each price changes."""

SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "500",  # a segment that is still written is never compacted
    "min.cleanable.dirty.ratio": "0.01",
}

_PATIENCE_SECONDS: Final = 60.0

Prices = dict[str, str]


class Log(NamedTuple):
    """What is in the topic."""

    offsets: list[int]
    prices: Prices
    """What one knows who has read it from the start."""


def compacted(bootstrap: str) -> tuple[Log, Log]:
    """The topic as it was written, and as it is when its past is forgotten."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, config=SETTINGS)])[TOPIC].result(_PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": bootstrap})
    for change in range(CHANGES):
        for product in range(PRODUCTS):
            producer.produce(TOPIC, key=f"product {product}", value=f"{product}.{change:02} €")
    producer.produce(TOPIC, key="product 0", value=None)  # no longer sold
    producer.flush()
    written = read(bootstrap)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while len((now := read(bootstrap)).offsets) > PRODUCTS and time.monotonic() < deadline:
        time.sleep(0.2)
    return written, now


def read(bootstrap: str) -> Log:
    """Everything, from the first offset to the last."""
    settings: dict[str, str | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": "not used",
        "enable.partition.eof": True,  # the end is told, as a message with an error
    }
    found = Log([], {})
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(_PATIENCE_SECONDS)) is not None and message.error() is None:
            found.offsets.append(message.offset() or 0)
            key, value = (message.key() or b"").decode(), message.value()
            if value is None:
                found.prices.pop(key, None)
            else:
                found.prices[key] = value.decode()
    return found


def main() -> None:
    """Show it."""
    with Broker(flush="os", compaction_check_ms=200, retention_check_ms=500) as broker:
        before, after = compacted(broker.bootstrap)
    for title, log in (("as written:", before), ("compacted:", after)):
        print(
            f"{title:12}{len(log.offsets):5} records, offsets {log.offsets[0]} to "
            f"{log.offsets[-1]}, {len(log.prices)} prices"
        )
    print(f"The prices are {'the same' if before.prices == after.prices else 'NOT the same'}.")


if __name__ == "__main__":
    main()
