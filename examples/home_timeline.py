"""Home timelines, kept up to date by a join of two tables: `python -m examples.home_timeline`.

A timeline is what the people whom one follows have posted, the newest first, and no more than fit
on a page. Four rules keep it right: a post goes to all followers, a deleted one is taken back from
them, who follows somebody gets what that one has posted before, and who unfollows loses it. They
are one join; nobody writes them down.
"""

import json
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Broker
from headrace.settings import KafkaSettings, Settings, StreamsSettings
from headrace.streams import Flow

PAGE: Final = 3
"""How many posts fit on a page."""

Change = tuple[str, Any, Any]
"""A topic, a key and a value; None deletes."""

Timelines = dict[str, list[str]]
"""What readers see, the newest first."""


def post(number: int, sender: str, text: str) -> Change:
    """Somebody posts something."""
    row = {"id": number, "sender": sender, "text": text, "at": f"2026-01-01T10:{number:02}:00Z"}
    return "posts", number, row


def unpost(number: int) -> Change:
    """A post is deleted."""
    return "posts", number, None


def follow(reader: str, sender: str) -> Change:
    """Somebody follows somebody."""
    row = {"reader": reader, "sender": sender}
    return "follows", row, row


def unfollow(reader: str, sender: str) -> Change:
    """Somebody does so no more."""
    return "follows", {"reader": reader, "sender": sender}, None


STORY: Final[Sequence[tuple[str, Sequence[Change]]]] = (
    (
        "Bob follows Ada, and she posts",
        (follow("Bob", "Ada"), post(1, "Ada", "one"), post(2, "Ada", "two")),
    ),
    (
        "Grace posts, and Bob follows her afterwards",
        (post(3, "Grace", "three"), post(4, "Grace", "four"), follow("Bob", "Grace")),
    ),
    ("Eve follows Grace", (follow("Eve", "Grace"),)),
    ("Grace deletes what she posted last", (unpost(4),)),
    ("Bob unfollows Ada", (unfollow("Bob", "Ada"),)),
    ("Ada deletes a post that Bob no longer has", (unpost(1),)),
)


def timelines(settings: Settings) -> Flow:
    """Posts by follower, the newest of each."""
    flow = Flow("home-timeline", settings=settings)
    posts = flow.table("posts", "id int, sender string, text string, at timestamp", key="id")
    follows = flow.table("follows", "reader string, sender string", key=("reader", "sender"))
    newest = posts.join(follows, on="sender").top(PAGE, by="reader", order="at desc")
    flow.topic("home", newest.select("reader", "id", "sender", "text"), key=("reader", "id"))
    return flow


def told(directory: Path) -> list[tuple[str, Timelines]]:
    """Let the story happen, and return what everybody sees after each of its steps."""
    seen: list[tuple[str, Timelines]] = []
    with Broker(flush="os") as broker:
        settings = Settings(
            kafka=KafkaSettings(bootstrap=broker.bootstrap),
            streams=StreamsSettings(checkpoints=str(directory), partitions=2),
        )
        flow = timelines(settings)
        for happens, changes in STORY:
            _write(broker.bootstrap, changes)
            flow.run(once=True)
            seen.append((happens, _read(broker.bootstrap)))
    return seen


def main() -> None:
    """Tell the story."""
    with tempfile.TemporaryDirectory(prefix="home-timeline-") as directory:
        for happens, found in told(Path(directory)):
            print(f"\n{happens}:")
            for reader, posts in sorted(found.items()):
                print(f"  {reader} sees {', '.join(posts)}")


def _write(bootstrap: str, changes: Sequence[Change]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for topic, key, value in changes:
        producer.produce(topic, None if value is None else json.dumps(value), json.dumps(key))
    producer.flush()


def _read(bootstrap: str) -> Timelines:
    """The timelines as they are, from the topic that the flow writes."""
    rows: dict[str, dict[str, Any]] = {}
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "enable.partition.eof": True}
    )
    with closing(consumer):
        partitions = consumer.list_topics("home").topics["home"].partitions
        consumer.assign([TopicPartition("home", number, 0) for number in partitions])
        ended = 0
        while ended < len(partitions):
            message = consumer.poll(10)
            if message is None or message.error() is not None:
                ended += 1
                continue
            key, value = (message.key() or b"").decode(), message.value()
            rows.pop(key, None)
            if value is not None:
                rows[key] = json.loads(value)
    found: Timelines = {}
    for row in sorted(rows.values(), key=lambda each: -int(each["id"])):
        found.setdefault(row["reader"], []).append(f"{row['text']} by {row['sender']}")
    return found


if __name__ == "__main__":
    main()
