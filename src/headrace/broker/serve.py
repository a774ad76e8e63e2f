"""A broker as a process of its own: runs until it is told to stop."""

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable

from headrace.broker.event_loop import new_event_loop
from headrace.settings import BrokerSettings

log = logging.getLogger("headrace.broker")


def run(settings: BrokerSettings, *, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then stop cleanly.

    `on_ready` is called with the address listened on once clients can connect. Raises a
    `HeadraceError` if the broker cannot start.
    """
    _raise_file_limit()
    # What is imported from now on stays; looking for garbage in it would only take time.
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(settings, on_ready))
    finally:
        gc.enable()


async def _serve(settings: BrokerSettings, on_ready: Callable[[str], None]) -> None:
    # kio imports Hypothesis where it is installed, to register strategies that a broker never
    # uses; that would double the time to start in every development environment.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from headrace.broker.later import first_clients_served
    from headrace.broker.server import Server

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    server = Server(settings)
    await server.listen()
    if server.monitor_address:
        log.info("metrics and health on http://%s", server.monitor_address)
    on_ready(server.listening)
    if await first_clients_served(stopping):
        await server.complete()
        _spare_the_collector()
        await stopping.wait()
    log.info("stopping")
    await server.stop()


def _raise_file_limit() -> None:
    """Allow as many open files as the system lets us: each connection and each partition is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Where the limit cannot be raised this far, the one in force has to do.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _spare_the_collector() -> None:
    """Keep garbage collection out of the way of latency.

    What exists now lives as long as the process, and a request leaves no cycles behind, so young
    collections would look at the same few objects thousands of times a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    gc.enable()
