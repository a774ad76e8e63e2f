"""Where a stream begins and a batch ends, in the forms that people have, as the source's option."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from headrace.streams.errors import InvalidFlow

Position: TypeAlias = str | datetime | Mapping[str, Mapping[int, int]]
"""earliest, latest, a time, "group:NAME", or offsets as {"topic": {partition: offset}}."""


def position_option(position: Position, what: str) -> str:
    """The position as the source's option; InvalidFlow if it is none.

    >>> position_option({"clicks": {0: 42}}, "start")
    '{"clicks": {"0": 42}}'
    """
    if isinstance(position, datetime):
        if position.tzinfo is None:
            raise InvalidFlow(
                f"{what}={position!r} has no time zone; give one, as in "
                "datetime(2026, 1, 1, tzinfo=UTC)."
            )
        return position.isoformat()
    if isinstance(position, Mapping):
        return json.dumps(
            {
                topic: {str(partition): offset for partition, offset in offsets.items()}
                for topic, offsets in position.items()
            }
        )
    if position in ("earliest", "latest") or position.startswith(("group:", "{")):
        return position
    try:
        datetime.fromisoformat(position)
    except ValueError:
        raise InvalidFlow(
            f"{what}={position!r} is no position: say earliest, latest, a time such as "
            '"2026-11-16T08:00:00+00:00", "group:NAME", or offsets as {"topic": {0: 42}}.'
        ) from None
    return position
