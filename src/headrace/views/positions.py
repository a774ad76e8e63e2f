"""Positions as they travel: `orders:0:4711` is the record at offset 4711 of partition 0.

Inside, a position is a mapping from partitions to the *next* offset, the first that is not in it.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from headrace.kafka.positions import Partition
from headrace.views.errors import ViewsError

if TYPE_CHECKING:
    from confluent_kafka import Message

Offsets: TypeAlias = Mapping[Partition, int]
"""For each partition the first offset that is not reached."""


class InvalidPosition(ViewsError):
    """A text that is no position."""


def parse_positions(text: str) -> dict[Partition, int]:
    """What must be reflected so that all records of a text are: next offsets by partition.

    >>> parse_positions("orders:0:4711,users:1:3")
    {Partition(topic='orders', number=0): 4712, Partition(topic='users', number=1): 4}
    """
    found: dict[Partition, int] = {}
    for each in text.split(","):
        parts = each.strip().split(":")
        if len(parts) != 3 or not parts[0] or not all(one.isdecimal() for one in parts[1:]):
            raise InvalidPosition(
                f'"{each.strip()}" is no position; write TOPIC:PARTITION:OFFSET, as in '
                "orders:0:4711, and commas between several."
            )
        partition = Partition(parts[0], int(parts[1]))
        found[partition] = max(int(parts[2]) + 1, found.get(partition, 0))
    return found


def format_positions(reached: Offsets) -> str:
    """The last offsets that are reached, as they travel; partitions without one are left out.

    >>> format_positions({Partition("orders", 1): 8, Partition("orders", 0): 0})
    'orders:1:7'
    """
    return ",".join(
        f"{each.topic}:{each.number}:{reached[each] - 1}"
        for each in sorted(reached)
        if reached[each]
    )


def position_of(*messages: "Message") -> str:
    """The position of records that were produced, from their delivery reports.

    A record has one when it is delivered: `on_delivery` is handed such a message.
    """
    reached: dict[Partition, int] = {}
    for each in messages:
        topic, number, offset = each.topic(), each.partition(), each.offset()
        if topic is None or number is None or offset is None or offset < 0:
            raise InvalidPosition("A record has a position when it is delivered, and not before.")
        partition = Partition(topic, number)
        reached[partition] = max(offset + 1, reached.get(partition, 0))
    return format_positions(reached)


def is_reflected(required: Offsets, reached: Offsets) -> bool:
    """Whether everything that is required is reached."""
    return all(reached.get(each, 0) >= offset for each, offset in required.items())


def least(several: Iterable[Offsets]) -> dict[Partition, int]:
    """What all have reached, in the partitions that all know."""
    positions = list(several)
    shared = set(positions[0]).intersection(*positions[1:]) if positions else set()
    return {each: min(one[each] for one in positions) for each in shared}
