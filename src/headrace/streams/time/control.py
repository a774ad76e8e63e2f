"""What a task of a source tells of time, as the bytes of a control row.

A control row comes after the rows that it is about, in the same task, and goes with them through
whatever is computed of single rows; so those who count time know more than those rows tell that
were not left out on the way.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.streams.state.errors import StateError

VERSION: Final = 2
"""Of the JSON below. It never outlives a batch, but workers may have another release."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What some records tell of time; all times are microseconds since 1970.

    >>> told = Observation(5, {"orders-0": 3})
    >>> Observation.from_bytes(told.to_bytes()) == told
    True
    """

    clock: int
    """Of the batch: the same whenever the batch is run again."""

    times: Mapping[str, int] = field(default_factory=dict)
    """The largest event time of each source of time."""

    promises: Mapping[str, int] = field(default_factory=dict)
    """The largest time of each source before which it has promised to send nothing more."""

    implausible: int = 0
    """Events whose time was too far ahead of the clock to be counted above."""

    origins: Mapping[str, tuple[int, int, bool]] = field(default_factory=dict)
    """The sources that an operator in between has its time from, for people to see: the bound of
    each, when it was last heard of, and whether it is idle."""

    def to_bytes(self) -> bytes:
        """As it travels; equal observations are equal bytes."""
        told = {
            "version": VERSION,
            "clock": self.clock,
            "times": dict(self.times),
            "promises": dict(self.promises),
            "implausible": self.implausible,
            "origins": dict(self.origins),
        }
        return json.dumps(told, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, told: bytes) -> "Observation":
        """What was told; StateError if another release of Headrace told it."""
        read = json.loads(told)
        if read["version"] != VERSION:
            raise StateError(
                f"A source tells of time in version {read['version']}, and this worker knows "
                f"version {VERSION}: install the same release of Headrace on all workers."
            )
        origins = {
            name: (bound, heard, idle) for name, (bound, heard, idle) in read["origins"].items()
        }
        return cls(read["clock"], read["times"], read["promises"], read["implausible"], origins)
