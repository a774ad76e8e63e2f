"""One excision from its beginning to its receipt.

First everything is looked at, so that whatever stands in the way is known before anything is
changed. Then one segment after the other is replaced: should the broker die in between, each is
either as it was or as it is to be, and the same request finishes the rest.
"""

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from headrace.broker.excision.archived import archived_objects, tidy
from headrace.broker.excision.local import local_segments
from headrace.broker.excision.places import Found, Place, Rewritten
from headrace.broker.excision.process import ExcisionProcess
from headrace.broker.excision.readers import wait_for_readers
from headrace.broker.excision.receipt import Outcome, receipt_of, save_receipt
from headrace.broker.excision.request import ExcisionRequest
from headrace.broker.partition import Partition
from headrace.broker.topics import Topic
from headrace.log import SYSTEM_DISK
from headrace.log.archive.cache import CACHE
from headrace.log.errors import LogError, StorageFull
from headrace.log.excision import CheckReport, ExcisionRefused, Sighting
from headrace.log.excision_check import size_below
from headrace.log.manifest import REWRITTEN

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

log = logging.getLogger("headrace.broker")

SPARE_BYTES: Final = 16 << 20
"""What must be left on the disk for everybody else while a segment is there twice."""

TRANSACTION_SECONDS: Final = 0.1
"""Time between looks whether open transactions have ended."""


class ExcisionJob:
    """An excision under way or at its end; belongs to the event loop."""

    def __init__(
        self,
        core: "BrokerCore",
        job_id: str,
        request: ExcisionRequest,
        topic: Topic,
        partitions: list[Partition],
    ) -> None:
        self.id = job_id
        self.request = request
        self.partitions = partitions
        self.state = "running"
        """`running`, then `done` or `refused`."""
        self._core = core
        self._topic = topic
        self._data = core.settings.data.absolute()
        self._tag = f"excised-{job_id}"
        self._phase, self._done, self._total = "waiting", 0, 0
        self._reason: str | None = None
        self._receipt: dict[str, Any] | None = None
        self._news = asyncio.Event()
        self._until: dict[int, int] = {}
        self._rewritten: list[tuple[int, Rewritten]] = []

    def status(self) -> dict[str, Any]:
        """What a poll is told."""
        return {
            "state": self.state,
            "phase": self._phase,
            "done": self._done,
            "total": self._total,
            "reason": self._reason,
            "receipt": self._receipt,
        }

    async def wait_for_news(self, seconds: float) -> None:
        """Return when there is something to tell, or after that long."""
        if self.state == "running":
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), seconds)
            except TimeoutError:
                return

    async def run(self) -> None:
        """Do it; never raises what the status can say."""
        began_ms = self._core.clock.now_ms()
        name, dry = self.request.topic, " (dry run)" if self.request.dry_run else ""
        log.info("excision %s of %s begins%s", self.id, name, dry)
        try:
            receipt = receipt_of(await self._excise(began_ms))
        except (LogError, OSError) as error:
            self._refuse(str(error))
        except asyncio.CancelledError:
            self._refuse("the broker was stopped")
            raise
        except Exception as error:
            log.exception("excision %s failed", self.id)
            self._refuse(f"the broker failed: {error!r}; its log says more")
        else:
            await self._keep(receipt)
            self._receipt = receipt
            self.state = "done"
            log.info("excision %s of %s: %d records%s", self.id, name, receipt["records"], dry)
        self._tell()

    async def _excise(self, began_ms: int) -> Outcome:
        async with AsyncExitStack() as held:
            for partition in self.partitions:
                # Neither compaction nor archiving may have copies of their own under way.
                await held.enter_async_context(partition.rewriting)
                self._until[partition.index] = await self._settle(partition)
            process = ExcisionProcess(self.request.wanted, self._tag, self._progress)
            held.push_async_callback(self._clean_up, process)
            found = await self._look(process, await self._places())
            readers = check = None
            if not self.request.dry_run:
                await self._rewrite(process, found)
                await self._let_go()
                readers = await wait_for_readers(self._data)
                check = await self._check(process)
        return Outcome(
            job=self.id,
            cluster_id=self._core.cluster_id,
            topic_id=str(self._topic.id),
            request=self.request,
            began_ms=began_ms,
            ended_ms=self._core.clock.now_ms(),
            until=self._until,
            found=found,
            rewritten=self._rewritten,
            readers_of_old_files=readers,
            check=check,
        )

    async def _settle(self, partition: Partition) -> int:
        """Have everything that was written until now sealed, synced and decided; return its end."""
        end_offset = partition.log.end_offset
        if self.request.dry_run:
            await self._core.commits.durable(partition)
            return end_offset
        partition.log.roll()
        await self._core.commits.durable(partition)
        deadline = self._core.loop.time() + self.request.patience_seconds
        while partition.log.last_stable_offset < end_offset:
            if partition.retired or self._core.loop.time() > deadline:
                raise ExcisionRefused(
                    f"a transaction is open in {partition.topic}-{partition.index} since offset "
                    f"{partition.log.last_stable_offset}, and whether its records count is not "
                    "decided yet; let its producer end it, or give it more time"
                )
            await asyncio.sleep(TRANSACTION_SECONDS)
        return end_offset

    async def _places(self) -> list[Place]:
        places: list[Place] = []
        for partition in self.partitions:
            directory = self._data / f"{partition.topic}-{partition.index}"
            archive = self._core.archive
            places += await archived_objects(partition, archive, directory, self._tag)
            places += local_segments(partition, self._until[partition.index])
        return places

    async def _look(self, process: ExcisionProcess, places: list[Place]) -> list[Found]:
        self._enter("looking", sum(place.size for place in places))
        found = []
        for place in places:
            findings = await place.find(process)
            if findings is not None and findings.records:
                found.append(Found(place, findings))
        if any(partition.retired for partition in self.partitions):
            raise ExcisionRefused(f"{self.request.topic} was deleted, and its records go with it")
        return found

    async def _rewrite(self, process: ExcisionProcess, found: list[Found]) -> None:
        await self._require_room(max((each.place.room_needed for each in found), default=0))
        self._enter("rewriting", sum(each.place.size for each in found))
        for each in found:
            rewritten = await each.place.rewrite(process)
            if rewritten is not None:
                self._rewritten.append((each.place.partition, rewritten))
                self._core.metrics.excised_records += rewritten.change.findings.records

    async def _require_room(self, needed: int) -> None:
        stat = await self._in_thread(os.statvfs, self._data)
        free = stat.f_bavail * stat.f_frsize
        if needed and free < needed + SPARE_BYTES:
            raise StorageFull(
                f"rewriting takes {needed} bytes for a while, and {self._data} has {free} free; "
                "nothing was changed. Free some space and run the excision again"
            )

    async def _let_go(self) -> None:
        """Remove files that left the log before, and are still there."""
        for partition in self.partitions:
            retired = partition.log.take_retired()
            if retired:
                self._core.metrics.retired_bytes += retired.bytes
                await self._in_thread(retired.remove)
            if partition.archive is not None and self._core.archive is not None:
                await tidy(partition.archive, self._core.archive)
        removals = self._core.topics.removals
        while removals:
            await self._in_thread(removals.pop().remove)

    async def _check(self, process: ExcisionProcess) -> CheckReport:
        self._enter("checking", await self._in_thread(size_below, self._data))
        until = {}
        for partition in self.partitions:
            end_offset = self._until[partition.index]
            until[f"{partition.topic}-{partition.index}/"] = end_offset
            until[f"{CACHE}/{self._topic.id.hex}-{partition.index}-"] = end_offset
        report = await process.check(self._data, until)
        replaced = {each.after for _, each in self._rewritten if each.archived}
        # Those that were not replaced have been looked at before, and never change.
        places = [place for place in await self._places() if place.name in replaced]
        left = [
            Sighting(place.name, findings.records, 0)
            for place in places
            if (findings := await place.find(process)) is not None and findings.records
        ]
        return report._replace(
            files=report.files + len(places),
            bytes=report.bytes + sum(place.size for place in places),
            left=[*report.left, *left],
        )

    async def _keep(self, receipt: dict[str, Any]) -> None:
        if self.request.dry_run:
            return
        try:
            await self._in_thread(save_receipt, receipt, self._data, SYSTEM_DISK)
        except OSError as error:
            # What is done is done, and whoever asked gets the receipt all the same.
            log.error("the receipt of excision %s cannot be kept: %s", self.id, error)

    async def _clean_up(self, process: ExcisionProcess) -> None:
        await self._in_thread(process.stop)
        await self._in_thread(self._remove_leftovers)

    def _remove_leftovers(self) -> None:
        for partition in self.partitions:
            directory = self._data / f"{partition.topic}-{partition.index}"
            for path in directory.glob(f"*.{self._tag}.*{REWRITTEN}"):
                SYSTEM_DISK.unlink(path)

    def _refuse(self, reason: str) -> None:
        if self._rewritten:
            reason += (
                f". {len(self._rewritten)} segments were rewritten before that and stay so; run "
                "the same excision again to finish it"
            )
        log.error("excision %s of %s: %s", self.id, self.request.topic, reason)
        self._reason = reason
        self.state = "refused"
        self._tell()

    def _enter(self, phase: str, total: int) -> None:
        self._phase, self._done, self._total = phase, 0, total
        self._tell()

    def _progress(self, size: int) -> None:
        self._done += size
        self._tell()

    def _tell(self) -> None:
        self._news.set()

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        return await self._core.loop.run_in_executor(None, function, *arguments)
