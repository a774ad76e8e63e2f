"""Holding a version of a flow for this process, wherever its directory is."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from headrace.settings import KafkaSettings
from headrace.streams.running.errors import FlowAlreadyRunning
from headrace.streams.running.lease import only_run
from headrace.streams.running.lock import locked
from headrace.streams.running.places import LocalPlace, Place


def held(
    place: Place,
    title: str,
    kafka: KafkaSettings,
    overtaken: Callable[[str], None] = lambda message: None,
) -> AbstractContextManager[None]:
    """Hold a version while a block runs; FlowAlreadyRunning names who has it instead.

    A directory of this machine is locked. Elsewhere it is a lease of the cluster, which another
    process can take over if this one falls silent; `overtaken` is told then.
    """
    if isinstance(place, LocalPlace):
        return locked(place.path, title)
    return only_run(kafka, title, place.address, overtaken)


def is_running(place: Place, title: str, kafka: KafkaSettings) -> bool:
    """Whether a process holds the version now."""
    if not place.names():
        return False
    try:
        with held(place, title, kafka):
            return False
    except FlowAlreadyRunning:
        return True
