"""What visitors hold in their hands: clocks that are wrong, and networks that come and go.

A device says when something occurred and when it was sent, both by its own clock. In a tunnel it
keeps what happens, and sends all of it at the other end.
"""

import zlib
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_MOBILE: Final = 0.4
"""How many visitors have a phone; the others sit at a desk, with a clock that is right."""

_WRONG_CLOCKS: Final = 0.5
"""How many phones are off by up to some minutes."""

_ABSURD_CLOCKS: Final = 0.02
"""How many believe that it is another year."""

_TUNNEL: Final = 0.06
"""How often a step of somebody with a phone leads into a tunnel."""

_TUNNEL_SECONDS: Final = (4.0, 15.0)


@dataclass(frozen=True, slots=True)
class Device:
    """A phone, or a computer on a desk."""

    kind: str
    clock_seconds: float
    """How far its clock is ahead of the true time."""


@dataclass(frozen=True, slots=True)
class Sent(Generic[T]):
    """Something that left a device, with the true times of both; its clock is for others to add."""

    what: T
    device: Device
    occurred: float
    sent: float


def device_of(session: str) -> Device:
    """The device of a visit, always the same one.

    >>> device_of("visit-000001").kind
    'desktop'
    """
    random = Random(zlib.crc32(session.encode()))
    if random.random() > _MOBILE:
        return Device("desktop", 0.0)
    if random.random() < _ABSURD_CLOCKS:
        return Device("mobile", random.choice((-1, 1)) * 365 * 86_400.0)
    if random.random() < _WRONG_CLOCKS:
        return Device("mobile", random.uniform(-300, 300))
    return Device("mobile", 0.0)


class Network(Generic[T]):
    """The way from devices to the shop: most of it comes at once, and some from behind tunnels."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._tunnels: dict[str, float] = {}
        """When those who are in a tunnel come out of it, by session."""
        self._kept: dict[str, list[Sent[T]]] = {}

    def pass_on(self, session: str, what: T, at: float) -> list[Sent[T]]:
        """What arrives when something occurs: that, or nothing if it is in a tunnel."""
        device = device_of(session)
        outside = device.kind == "mobile" and session not in self._tunnels
        if outside and self._random.random() < _TUNNEL:
            self._tunnels[session] = at + self._random.uniform(*_TUNNEL_SECONDS)
        if session in self._tunnels:
            self._kept.setdefault(session, []).append(Sent(what, device, at, at))
            return []
        return [Sent(what, device, at, at)]

    def come_out(self, at: float) -> list[Sent[T]]:
        """What arrives from those who have left their tunnels by then, in the order it occurred."""
        out = [session for session, until in self._tunnels.items() if until <= at]
        arrived: list[Sent[T]] = []
        for session in out:
            until = self._tunnels.pop(session)
            kept = self._kept.pop(session, [])
            arrived += (Sent(each.what, each.device, each.occurred, until) for each in kept)
        return sorted(arrived, key=lambda each: each.occurred)

    def close(self, at: float) -> list[Sent[T]]:
        """Everything that is still kept, as if all tunnels ended now."""
        self._tunnels = dict.fromkeys(self._tunnels, at)
        return self.come_out(at)
