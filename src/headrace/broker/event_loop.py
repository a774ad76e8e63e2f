"""Which event loop a broker runs on."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A uvloop, or the standard loop where uvloop does not exist."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
