"""One run: clients work, faults happen, everything calms down, and the whole log is read."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.asyncio_clients import AsyncioReader, AsyncioTransactionalWriter
from tests.chaos.history import (
    Calm,
    Delivered,
    Event,
    Isolation,
    Outcome,
    Poll,
    Recorder,
    Send,
    Session,
    Stuck,
)
from tests.chaos.nemeses import Nemesis
from tests.chaos.readers import GroupReader, Reader, Watcher, ends, records_of, watching_consumer
from tests.chaos.targets import Target
from tests.chaos.workers import TOPIC, Run, Worker
from tests.chaos.writers import IdempotentWriter, TransactionalWriter


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run consists of; two runs of one plan make the same decisions."""

    seed: str
    seconds: float
    faults: tuple[str, ...]
    partitions: int = 4
    transactions: bool = True
    mean_pause: float = 1.2
    """Seconds between two faults."""
    transaction_seconds: int = 6
    """How long a transaction may take before the broker must abort it."""
    grace: float = 20.0
    """What a loaded machine may take longer for that than it should."""
    killed_before_the_last_look: bool = True
    """Whether what is read in the end must have survived one more kill -9."""


def execute(
    plan: Plan, target: Target, progress: Callable[[str], None] | None = None
) -> Sequence[Event]:
    """Carry a plan out on a running broker; what happened."""
    recorder = Recorder()
    run = Run(
        bootstrap=target.bootstrap,
        partitions=plan.partitions,
        seed=plan.seed,
        transaction_seconds=plan.transaction_seconds,
        recorder=recorder,
        stopping=threading.Event(),
    )
    _create_topic(run)
    nemesis = Nemesis(target, recorder, plan.seed, plan.faults, mean_pause=plan.mean_pause)
    workers = _workers(run, transactions=plan.transactions)
    for worker in workers:
        worker.start()
    nemesis.start()
    deadline = time.monotonic() + plan.seconds
    while (left := deadline - time.monotonic()) > 0 and nemesis.failure is None:
        time.sleep(min(left, 1.0))
        if progress is not None:
            progress(f"{left:5.0f} s left, {nemesis.count} faults, {len(recorder.events)} events")
    nemesis.stop()
    run.stopping.set()
    if nemesis.failure is not None:
        recorder.add(Stuck, "nemesis", f"the broker did not come back: {nemesis.failure}")
        return recorder.events
    for worker in workers:
        if not worker.join(60):
            recorder.add(Stuck, worker.name, "did not finish within 60 s")
        elif worker.failure is not None:
            raise worker.failure
    recorder.add(Calm, "run", float(plan.transaction_seconds))
    _await_stability(run, plan.transaction_seconds + plan.grace)
    _send_canaries(run)
    if plan.killed_before_the_last_look:
        target.kill()
        target.start()
    for isolation in Isolation:
        _read_everything(run, isolation)
    return recorder.events


def _workers(run: Run, *, transactions: bool) -> list[Worker]:
    workers = [
        IdempotentWriter(run, "idempotent-1"),
        IdempotentWriter(run, "idempotent-2"),
        Reader(run, "committed", Isolation.COMMITTED),
        Reader(run, "uncommitted", Isolation.UNCOMMITTED),
        AsyncioReader(run, "asyncio-committed", Isolation.COMMITTED),
        GroupReader(run, "member-1", "classic"),
        GroupReader(run, "member-2", "classic"),
        GroupReader(run, "new-member-1", "consumer"),
        GroupReader(run, "new-member-2", "consumer"),
        Watcher(run, "watcher"),
    ]
    if transactions:
        workers += [
            TransactionalWriter(run, "transactional-1"),
            TransactionalWriter(run, "transactional-2"),
            AsyncioTransactionalWriter(run, "asyncio-transactional"),
        ]
    return workers


def _create_topic(run: Run) -> None:
    topic = NewTopic(TOPIC, run.partitions, 1, config={"retention.ms": "-1"})
    with AdminClient(run.settings()) as admin:
        admin.create_topics([topic])[TOPIC].result(30)


def _await_stability(run: Run, seconds: float) -> None:
    """Wait until nothing holds readers of committed records back."""
    deadline = time.monotonic() + seconds
    with (
        contextlib.closing(watching_consumer(run, Isolation.COMMITTED)) as committed,
        contextlib.closing(watching_consumer(run, Isolation.UNCOMMITTED)) as uncommitted,
    ):
        while True:
            stable, end = dict(ends(run, committed)), dict(ends(run, uncommitted))
            if len(stable) == len(end) == run.partitions and stable == end:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
    for partition, last in end.items():
        if stable.get(partition) != last:
            problem = f"committed up to {stable.get(partition)} of {last}"
            run.recorder.add(Stuck, "run", problem, partition)


def _send_canaries(run: Run) -> None:
    """One more record to every partition must get through."""
    producer = Producer(run.settings(enable_idempotence=True, message_timeout_ms=20_000))

    def told(error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        outcome = Outcome.UNKNOWN if error else Outcome.OK
        offset = None if error else message.offset()
        run.recorder.add(Delivered, "canary", value.decode(), outcome, offset)
        if error:
            run.recorder.add(Stuck, "canary", f"could not write: {error}")

    for partition in range(run.partitions):
        value = f"canary/{partition}"
        run.recorder.add(Send, "canary", value, partition)
        producer.produce(TOPIC, value, partition=partition, on_delivery=told)
    producer.flush(30)


def _read_everything(run: Run, isolation: Isolation) -> None:
    name = f"final-{isolation}"
    numbers = tuple(range(run.partitions))
    run.recorder.add(Session, name, isolation, numbers, final=True)
    consumer = Consumer(
        run.settings(
            group_id="final",
            isolation_level=isolation,
            enable_auto_commit=False,
            enable_partition_eof=True,
            auto_offset_reset="error",
            check_crcs=True,
        )
    )
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in numbers])
        missing = set(numbers)
        deadline = time.monotonic() + 60
        while missing and time.monotonic() < deadline:
            messages = consumer.consume(5000, 0.5)
            if records := records_of(messages):
                run.recorder.add(Poll, name, records)
            missing -= {
                message.partition()
                for message in messages
                if (error := message.error()) is not None
                and error.code() == KafkaError._PARTITION_EOF
            }
    if missing:
        run.recorder.add(Stuck, name, f"could not read partitions {sorted(missing)} to the end")
