"""The visitors of the shop, as a process: events to the broker, orders to the database.

    python -m examples.shop.visitors --bootstrap HOST:PORT --database URL --sign FILE

They come until the sign at the door says that the shop is closed: until the file is there.
"""

import argparse
import signal
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from examples.shop.back_office import BackOffice
from examples.shop.devices import Network, Sent
from examples.shop.events import CAPTURED, PARTITIONS, TOPICS, encoded, topic_of
from examples.shop.journeys import Purchase, Step, Visit, Visitors

RATE: Final = 60.0
"""Steps of visitors in a second, if nobody wants another number."""

_OFFICE_SECONDS: Final = 2.0
"""How often something is changed in the database besides orders."""

_TICK_SECONDS: Final = 0.02
_TIMEOUT_SECONDS: Final = 30.0
_CRITICAL_ONLY: Final = 2


class Door:
    """Whether the shop is open: no signal came, and no sign says otherwise."""

    def __init__(self, sign: Path) -> None:
        self._sign = sign
        self._told = False
        self._looked = 0.0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.close())

    def close(self) -> None:
        """Let nobody in any more."""
        self._told = True

    @property
    def closed(self) -> bool:
        """Looks at the sign a few times a second."""
        if not self._told and time.monotonic() - self._looked > 10 * _TICK_SECONDS:
            self._looked = time.monotonic()
            self._told = self._sign.exists()
        return self._told


class Shop:
    """Takes what visitors do to where it belongs."""

    def __init__(self, bootstrap: str, database: str, rate: float, door: Door) -> None:
        self._opened = datetime.now(UTC)
        self._began = time.monotonic()
        seed = int(self._opened.timestamp())
        self._door = door
        self._visitors = Visitors(seed, rate, name=f"visit-{seed:x}")
        self._network: Network[tuple[Visit, Step]] = Network(Random(seed))
        self._office = BackOffice(database, Random(seed), lambda: door.closed)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "visitors",
                "enable.idempotence": True,
                "linger.ms": 20,
                "log_level": _CRITICAL_ONLY,
            }
        )

    def open(self) -> None:
        """Let visitors in until the door is closed, and then all that is still on its way."""
        worked = 0.0
        for at, visit, step in self._visitors:
            while (now := time.monotonic() - self._began) < at and not self._door.closed:
                self._arrive(self._network.come_out(now))
                if now - worked > _OFFICE_SECONDS:
                    worked = now
                    self._office.work()
                self._producer.poll(_TICK_SECONDS)
            if self._door.closed:
                break
            self._arrive(self._network.pass_on(visit.session, (visit, step), at))
        self._arrive(self._network.close(time.monotonic() - self._began))
        self._office.close()
        self._producer.flush(_TIMEOUT_SECONDS)

    def _arrive(self, arrived: Iterable[Sent[tuple[Visit, Step]]]) -> None:
        for each in arrived:
            visit, step = each.what
            if isinstance(step, Purchase):
                placed_at = self._opened + timedelta(seconds=each.occurred)
                self._office.take(visit, step, placed_at)
            else:
                self._tell(visit, Sent(step, each.device, each.occurred, each.sent))

    def _tell(self, visit: Visit, sent: Sent[Step]) -> None:
        value = encoded(visit, sent, self._opened)
        while True:
            try:
                self._producer.produce(topic_of(sent.what), value, visit.session)
            except BufferError:
                # The broker is away or slow: wait for it instead of losing events.
                self._producer.poll(_TICK_SECONDS)
            else:
                return


def make_topics(bootstrap: str, door: Door) -> None:
    """Make all topics that the flow reads, unless they are there, so that it need not wait."""
    kept = {"cleanup.policy": "compact"}
    topics = [
        *(NewTopic(each, PARTITIONS) for each in TOPICS),
        *(NewTopic(each, 1, config=kept) for each in CAPTURED),
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": _CRITICAL_ONLY})
    while not door.closed:
        try:
            there = admin.list_topics(timeout=_TIMEOUT_SECONDS).topics
            missing = [each for each in topics if each.topic not in there]
            for made in admin.create_topics(missing).values() if missing else ():
                made.result(_TIMEOUT_SECONDS)
        except KafkaException:
            time.sleep(_TICK_SECONDS)
        else:
            return


def positive(text: str) -> float:
    """A number above nought, for the command line."""
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text}")
    return number


def main() -> None:
    """Let visitors in until told otherwise."""
    parser = argparse.ArgumentParser(prog="python -m examples.shop.visitors")
    parser.add_argument("--bootstrap", required=True, help="the broker")
    parser.add_argument("--database", required=True, help="the database's URL")
    parser.add_argument("--rate", type=positive, default=RATE, help="steps a second")
    parser.add_argument("--sign", type=Path, required=True, help="closed when this is there")
    given = parser.parse_args()
    door = Door(given.sign)
    make_topics(given.bootstrap, door)
    if not door.closed:
        Shop(given.bootstrap, given.database, given.rate, door).open()


if __name__ == "__main__":
    main()
