"""How fast something is read that nobody, or somebody, waits for."""

from collections.abc import Callable
from typing import TypeAlias

Pace: TypeAlias = Callable[[int], None]
"""Told how many bytes were read; may take its time, or raise an error that ends it."""


def at_once(count: int) -> None:
    """The pace of somebody who is waited for."""
