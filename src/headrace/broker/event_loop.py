"""Which event loop a broker runs on, and what is left of a system error once a loop has told it."""

import asyncio
import os


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A uvloop, or the standard loop where uvloop does not exist."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def reason_of(error: OSError) -> str:
    """What the system says is wrong; event loops wrap that in words of their own."""
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
