"""The demo from start to end: broker, topics, groups, visitors; then the accounts."""

import contextlib
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import KafkaException

from examples.shop.absence import Absence
from examples.shop.departments import Analytics, Fraud
from examples.shop.events import TOPICS
from examples.shop.groups import ConsumerGroup
from examples.shop.journeys import Shop
from examples.shop.observer import Observation, Observer
from examples.shop.own_broker import OwnBroker, own_broker
from examples.shop.scene import GroupScene, Rates, Scene
from examples.shop.storefront import Storefront
from examples.shop.verdict import GroupAccount, Verdict
from headrace.clock import Clock, SystemClock

_FRAME_SECONDS = 0.5
_DRAIN_SECONDS = 30.0
_PATIENCE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What can be chosen about a run."""

    seconds: float | None = None
    """How long visitors come; None until interrupted."""
    rate: float = 400.0
    """Events per second."""
    seed: int = 7
    bootstrap: str | None = None
    """A cluster to use instead of a broker of the demo's own."""
    cycle_seconds: float = 18.0
    """In each cycle a member goes away once, so that its partitions move."""


class Display(Protocol):
    """Shows what is going on."""

    def show(self, scene: Scene) -> None:
        """Show this moment."""
        ...


def run(
    settings: DemoSettings,
    display: contextlib.AbstractContextManager[Display],
    stop: threading.Event,
) -> Verdict:
    """Run until the time is over or `stop` is set, let the groups finish, compare the numbers."""
    with contextlib.ExitStack() as cleanup:
        broker = None if settings.bootstrap else cleanup.enter_context(own_broker())
        demo = Demo(settings, broker)
        cleanup.callback(demo.close)
        demo.open()
        with display as shown:
            demo.play(shown, stop)
        return demo.finish()


class Demo:
    """A shop and its two departments on one cluster."""

    def __init__(self, settings: DemoSettings, broker: OwnBroker | None) -> None:
        self._settings = settings
        self._broker = broker
        self._clock: Clock = SystemClock()
        self._bootstrap = broker.bootstrap if broker else str(settings.bootstrap)
        # On somebody's cluster the demo keeps to names that are certainly its own.
        prefix = "" if broker else f"shop-{uuid.uuid4().hex[:6]}."
        shop = Shop(settings.seed)
        self._storefront = Storefront(self._bootstrap, shop, settings.rate, self._clock, prefix)
        self._analytics = Analytics()
        self._groups = [
            ConsumerGroup(self._bootstrap, self._analytics, 3, prefix),
            ConsumerGroup(self._bootstrap, Fraud(), 2, prefix),
        ]
        self._observer = Observer(self._bootstrap, prefix, self._group_names())
        self._restless = self._groups[0].member_names[-1]
        self._news = ""
        self._answered_at = self._clock.monotonic()

    def open(self) -> None:
        """Create the topics, then let the departments and the visitors in."""
        self._observer.create_topics()
        for group in self._groups:
            group.start()
        self._storefront.open()

    def play(self, display: Display, stop: threading.Event) -> None:
        """Show what happens, and now and then send a member away and call it back."""
        began = self._clock.monotonic()
        rates = Rates()
        absence = Absence(self._settings.cycle_seconds)
        while not stop.is_set():
            elapsed = self._clock.monotonic() - began
            if self._settings.seconds is not None and elapsed >= self._settings.seconds:
                return
            if (seen := self._observe()) is not None:
                rates.add(seen)
                display.show(self._scene(elapsed, seen, rates))
                if absence.changes(elapsed, seen.groups[self._groups[0].department.name].at_rest):
                    self._move_member(absence.away)
            stop.wait(_FRAME_SECONDS)

    def finish(self) -> Verdict:
        """Close the shop, let every group process what is left, and compare the numbers."""
        self._storefront.close()
        final = self._await_groups()
        for group in self._groups:
            group.stop()
        return Verdict(
            produced=self._storefront.acknowledged,
            stored={topic: final.stored(topic) for topic in TOPICS},
            groups=[
                GroupAccount(
                    name=group.department.name,
                    topics=group.department.topics,
                    processed=group.ledger.processed,
                    lag=final.group_lag(group.department.name, group.department.topics),
                    missing=group.ledger.missing,
                    redelivered=group.ledger.redelivered,
                )
                for group in self._groups
            ],
            revenue_cents=self._storefront.revenue_cents,
            counted_cents=self._analytics.revenue_cents,
            refused=self._storefront.refused,
        )

    def _await_groups(self) -> Observation:
        """Wait until every group has committed all there is, or for as long as is reasonable."""
        deadline = self._clock.monotonic() + _DRAIN_SECONDS
        while True:
            seen = self._observe()
            if seen is not None and (self._caught_up(seen) or seen.at > deadline):
                return seen
            time.sleep(_FRAME_SECONDS)

    def _caught_up(self, seen: Observation) -> bool:
        departments = (group.department for group in self._groups)
        return not any(seen.group_lag(each.name, each.topics) for each in departments)

    def _observe(self) -> Observation | None:
        """How things stand; None if the cluster cannot say just now, which it may not for long."""
        now = self._clock.monotonic()
        try:
            seen = self._observer.observe(now)
        except KafkaException:
            if now - self._answered_at > _PATIENCE_SECONDS:
                raise
            return None
        self._answered_at = now
        return seen

    def close(self) -> None:
        """Stop every thread, also when something failed; leave nothing on somebody's cluster."""
        self._storefront.close()
        for group in self._groups:
            group.stop()
        if self._broker is None:
            self._observer.delete_topics()
        self._observer.close()

    def _move_member(self, away: bool) -> None:
        group = self._groups[0]
        if away:
            group.stop_member(self._restless)
            self._news = f"{self._restless} has left: the others take over its partitions."
        else:
            group.restart_member(self._restless)
            self._news = f"{self._restless} is back and gets its share again."

    def _scene(self, elapsed: float, seen: Observation, rates: Rates) -> Scene:
        return Scene(
            bootstrap=self._bootstrap,
            elapsed=elapsed,
            observation=seen,
            rates=rates.now(),
            history=rates.history(),
            groups=self._scene_groups(),
            news=self._news,
            memory_bytes=self._broker.memory_bytes() if self._broker else None,
            stored_bytes=self._broker.stored_bytes() if self._broker else None,
        )

    def _scene_groups(self) -> Sequence[GroupScene]:
        return [
            GroupScene(
                name=group.department.name,
                topics=group.department.topics,
                members=group.member_names,
                finding=group.department.finding(),
            )
            for group in self._groups
        ]

    def _group_names(self) -> list[str]:
        return [group.department.name for group in self._groups]
