"""The shop's front: produces what visitors do, at a steady rate."""

import threading
from collections import Counter

from confluent_kafka import KafkaError, Message, Producer

from examples.shop.client import client_settings
from examples.shop.events import ORDERS, Event
from examples.shop.journeys import Shop
from headrace.clock import Clock

_TICK_SECONDS = 0.02


class Storefront:
    """Produces the shop's events from a thread of its own, `rate` of them per second."""

    def __init__(self, bootstrap: str, shop: Shop, rate: float, clock: Clock, prefix: str) -> None:
        self._producer = Producer(
            client_settings(bootstrap, "storefront") | {"enable.idempotence": True, "linger.ms": 5}
        )
        self._shop = shop
        self._rate = rate
        self._clock = clock
        self._prefix = prefix
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="storefront")
        self.acknowledged: Counter[str] = Counter()
        """Events per topic that the broker has promised to keep."""
        self.refused: Counter[str] = Counter()
        """Events that were not acknowledged, by the broker's reason."""
        self.revenue_cents = 0
        """What the produced orders add up to."""

    def open(self) -> None:
        """Let visitors in."""
        self._thread.start()

    def close(self) -> None:
        """Let no more visitors in, and return when every event is acknowledged or refused."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        began = self._clock.monotonic()
        for produced, event in enumerate(self._shop):
            while produced >= self._rate * (self._clock.monotonic() - began):
                self._producer.poll(0)
                if self._closing.wait(_TICK_SECONDS):
                    self._producer.flush()
                    return
            self._produce(event)

    def _produce(self, event: Event) -> None:
        if event.topic == ORDERS:
            self.revenue_cents += int(str(event.details["total_cents"]))
        at_ms = self._clock.now_ms()
        while True:
            try:
                self._producer.produce(
                    self._prefix + event.topic,
                    event.encode(at_ms),
                    event.session,
                    timestamp=at_ms,
                    on_delivery=self._delivered,
                )
            except BufferError:
                # The broker is slower than the visitors: wait for it instead of losing events.
                self._producer.poll(_TICK_SECONDS)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused[error.str()] += 1
        else:
            self.acknowledged[str(message.topic()).removeprefix(self._prefix)] += 1
