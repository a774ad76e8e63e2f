"""The private operations by which `headrace excise` starts an excision and follows it."""

from typing import TYPE_CHECKING, Any

from headrace.broker.excision.request import ExcisionRequest
from headrace.log.excision import ExcisionRefused

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

LONGEST_WAIT_SECONDS = 30.0
"""How long a poll waits for news at most."""


async def start(core: "BrokerCore", parameters: dict[str, Any]) -> object:
    """Begin an excision and name its job; it goes on whether or not anybody asks for it."""
    job = core.excisions.start(ExcisionRequest.from_json(parameters))
    return {"job": job.id}


async def poll(core: "BrokerCore", parameters: dict[str, Any]) -> object:
    """How far a job has come: at once if it has ended, else when there is news."""
    job = core.excisions.find(str(parameters.get("job")))
    try:
        seconds = float(parameters.get("wait_ms", 0)) / 1000
    except (TypeError, ValueError) as error:
        raise ExcisionRefused("wait_ms must be a number of milliseconds") from error
    await job.wait_for_news(min(seconds, LONGEST_WAIT_SECONDS))
    return job.status()
