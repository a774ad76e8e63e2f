"""What a writer has to know of a topic: how many partitions, and how large a batch may be."""

import time
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from headrace.kafka.connection import Anyone, Connection
from headrace.kafka.errors import UnknownTopic
from headrace.kafka.messages import request

BELIEVED_SECONDS: Final = 30.0
"""How long a shape is remembered; a topic that grows gets records in its new partitions by then."""

_DEFAULT_LIMIT: Final = 1_048_588
"""Kafka's default of max.message.bytes, believed where we may not ask."""

_TOPIC_RESOURCE: Final = 2
_LIMIT: Final = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class TopicShape:
    """A topic as it was when somebody looked."""

    partitions: int
    max_message_bytes: int


_seen: WeakKeyDictionary[Connection, dict[str, tuple[float, TopicShape]]] = WeakKeyDictionary()


def topic_shape(connection: Connection, topic: str) -> TopicShape:
    """The shape of a topic, at most half a minute old; UnknownTopic if there is none."""
    seen = _seen.setdefault(connection, {})
    looked, shape = seen.get(topic, (-BELIEVED_SECONDS, None))
    if shape is None or time.monotonic() - looked > BELIEVED_SECONDS:
        found = connection.topics([topic]).get(topic)
        if found is None or not found.leaders:
            raise UnknownTopic(topic)
        shape = TopicShape(len(found.leaders), _max_message_bytes(connection, topic))
        seen[topic] = (time.monotonic(), shape)
    return shape


def _max_message_bytes(connection: Connection, topic: str) -> int:
    resource = {
        "resource_type": _TOPIC_RESOURCE,
        "resource_name": topic,
        "configuration_keys": [_LIMIT],
    }
    asked = request("describe_configs", 2, resources=[resource], include_synonyms=False)
    values = [
        each.value for result in connection.ask(Anyone(), asked).results for each in result.configs
    ]
    return int(values[0]) if values and values[0] else _DEFAULT_LIMIT
