"""What a broker loads once it listens, and not before.

Importing all of a broker takes several times as long as everything else it does before it can
answer, and its first clients ask for versions and metadata only. So modules that serve anything
else are imported where they are first needed, inside functions, and all of them by `load` as soon
as the first clients have been answered. From then on no request pays for an import, or fails
because the process has no files left to open.

`load` runs in the event loop's thread, module by module, so that clients are answered in between.
In a thread of its own it would take turns with the loop all the same, and two threads that import
the same packages can see each other's half-made modules.
"""

import asyncio
import contextlib
from importlib import import_module
from typing import Final

from headrace.broker.apis import APIS
from headrace.broker.private import OPERATIONS

FIRST_CLIENTS_SECONDS: Final = 0.1
"""How long those who have waited for the broker to listen are served by an undisturbed loop."""

_HANDLERS: Final = dict.fromkeys(
    [api.family for api in APIS.values()] + [each.partition(".")[0] for each in OPERATIONS]
)

MODULES: Final = (
    "headrace.broker.groups.coordinator",
    "headrace.broker.transactions.coordinator",
    "headrace.broker.participants",
    *(f"headrace.broker.handlers.{family}" for family in _HANDLERS),
    "headrace.broker.cleaning",
    "headrace.broker.excision.jobs",
)
"""What is loaded; with each comes what it imports."""


async def load() -> None:
    """Import everything that was left out; other callbacks of the loop run in between."""
    for name in MODULES:
        import_module(name)
        await asyncio.sleep(0)


async def first_clients_served(stopping: asyncio.Event) -> bool:
    """Wait until it is time to `load`; False if the broker is to stop before that."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), FIRST_CLIENTS_SECONDS)
    return not stopping.is_set()
