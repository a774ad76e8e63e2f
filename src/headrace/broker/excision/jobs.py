"""The excisions of a broker: one at a time for each partition, and all of them remembered."""

import asyncio
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from headrace.broker.excision.job import ExcisionJob
from headrace.broker.excision.request import ExcisionRequest
from headrace.broker.partition import Partition
from headrace.broker.topics import Topic
from headrace.log.excision import ExcisionRefused

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

REMEMBERED: Final = 100
"""How many jobs that have ended can still be asked for."""


class UnknownTopic(ExcisionRefused):
    """There is no topic of that name."""


class UnknownPartition(ExcisionRefused):
    """The topic has fewer partitions than that."""


class UnknownJob(ExcisionRefused):
    """No excision of that name was begun since the broker started."""


class Excisions:
    """Starts excisions and knows how far they have come; belongs to the event loop."""

    def __init__(self, core: "BrokerCore") -> None:
        self._core = core
        self._jobs: dict[str, ExcisionJob] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, request: ExcisionRequest) -> ExcisionJob:
        """Begin an excision; `ExcisionRefused` if it cannot even begin."""
        topic = self._core.topics.get(request.topic)
        if topic is None:
            raise UnknownTopic(f"there is no topic {request.topic}; see headrace topics list")
        partitions = _chosen(topic, request)
        for partition in partitions:
            self._require_idle(partition)
        moment = datetime.fromtimestamp(self._core.clock.now_ms() / 1000, UTC)
        job_id = f"{moment:%Y%m%dT%H%M%SZ}-{os.urandom(4).hex()}"
        job = ExcisionJob(self._core, job_id, request, topic, partitions)
        self._remember(job)
        task = asyncio.ensure_future(job.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def find(self, job_id: str) -> ExcisionJob:
        """The job of a name; `UnknownJob` if there is none."""
        job = self._jobs.get(job_id)
        if job is None:
            raise UnknownJob(
                f"this broker knows no excision {job_id}: it was restarted since; run the same "
                "excision again to make sure that it is done"
            )
        return job

    async def stop(self) -> None:
        """Interrupt what is under way; every segment is left as it was or as it is to be."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _require_idle(self, partition: Partition) -> None:
        for job in self._jobs.values():
            if job.state == "running" and partition in job.partitions:
                raise ExcisionRefused(
                    f"excision {job.id} of {partition.topic}-{partition.index} is under way; wait "
                    "for its end and run this one again"
                )
        if partition.log.failure is not None:
            raise ExcisionRefused(
                f"{partition.topic}-{partition.index} cannot be written to: {partition.log.failure}"
            )

    def _remember(self, job: ExcisionJob) -> None:
        self._jobs[job.id] = job
        ended = [job_id for job_id, each in self._jobs.items() if each.state != "running"]
        for job_id in ended[: max(len(ended) - REMEMBERED, 0)]:
            del self._jobs[job_id]


def _chosen(topic: Topic, request: ExcisionRequest) -> list[Partition]:
    if request.partitions is None:
        return list(topic.partitions)
    count = len(topic.partitions)
    for index in request.partitions:
        if not 0 <= index < count:
            raise UnknownPartition(
                f"{topic.name} has no partition {index}; the last of its {count} is {count - 1}"
            )
    return [topic.partitions[index] for index in request.partitions]
