"""Whether somebody still reads files that were replaced: their bytes go with the last reader."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

PATIENCE_SECONDS: Final = 10.0
"""How long readers may take to finish before they are counted."""

_BETWEEN_LOOKS: Final = 0.1
_DESCRIPTORS: Final = Path("/proc/self/fd")
_REMOVED: Final = " (deleted)"


async def wait_for_readers(data: Path) -> int | None:
    """Wait until this process has no removed file of a directory open any more.

    Returns how many are open after some patience, usually none: a consumer that does not take in
    what it was sent keeps them. None where the system does not tell, which is all but Linux.
    """
    if sys.platform != "linux":
        return None
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    while count := await loop.run_in_executor(None, _count_removed, data):
        if loop.time() > deadline:
            return count
        await asyncio.sleep(_BETWEEN_LOOKS)
    return 0


def _count_removed(data: Path) -> int:
    count = 0
    for descriptor in _DESCRIPTORS.iterdir():
        # Closed since the directory was read.
        with suppress(FileNotFoundError):
            target = str(descriptor.readlink())
            count += target.startswith(f"{data}/") and target.endswith(_REMOVED)
    return count
