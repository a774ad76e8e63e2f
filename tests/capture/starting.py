"""Captures that tests start in their own process."""

from typing import Any

from headrace import Broker
from headrace.capture import Capture, Condition
from headrace.settings import KafkaSettings
from tests.capture.replaying import replayed


def capture(url: str, broker: Broker, to: str, **options: Any) -> Capture:
    """A capture of all tables that notices everything soon."""
    given: dict[str, Any] = {"tables": ["*"], "heartbeat_ms": 200, "discovery_ms": 100}
    kafka = KafkaSettings(bootstrap=broker.bootstrap)
    return Capture(url, to=to, kafka=kafka, **(given | options))


def following(running: Capture) -> bool:
    """Whether everything that was there is told."""
    assert running.progress.condition is not Condition.FAILED, running.progress.failure
    return running.progress.condition is Condition.FOLLOWING


def items(broker: Broker, topic: str) -> list[Any]:
    """The rows that a topic leads to, in the order of their keys."""
    return [tuple(row.values()) for _, row in sorted(replayed(broker.bootstrap, topic).items())]
