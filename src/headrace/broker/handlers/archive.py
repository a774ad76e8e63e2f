"""The private operation by which `headrace archive` learns whether a broker uses an archive."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore


async def state(core: "BrokerCore", parameters: dict[str, Any]) -> object:
    """Where the broker's archive is, if it has one, and why nothing can be archived there."""
    if core.archive is None or core.archiving is None:
        return {"location": None, "failure": None}
    return {"location": str(core.archive.store), "failure": core.archiving.failure}
