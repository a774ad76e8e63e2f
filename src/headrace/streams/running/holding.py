"""Holding a version of a flow for this process, wherever its directory is."""

from contextlib import AbstractContextManager, nullcontext

from headrace.streams.running.errors import FlowAlreadyRunning
from headrace.streams.running.lock import locked
from headrace.streams.running.places import LocalPlace, Place


def held(place: Place, title: str) -> AbstractContextManager[None]:
    """Hold a version while a block runs; FlowAlreadyRunning names who has it instead."""
    if isinstance(place, LocalPlace):
        return locked(place.path, title)
    return nullcontext()


def is_running(place: Place, title: str) -> bool:
    """Whether a process holds the version now."""
    if not place.names():
        return False
    try:
        with held(place, title):
            return False
    except FlowAlreadyRunning:
        return True
