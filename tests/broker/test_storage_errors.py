"""What clients are told, and what goes on, while the disk is full or failing."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.housekeeping import Housekeeping
from headrace.broker.producer_ids import BLOCK, ProducerIds
from headrace.broker.server import Server
from headrace.clock import ManualClock
from headrace.log import DataDirectory, Journal, PartitionLog
from headrace.log.errors import LogError, StorageFailed, StorageFull
from headrace.settings import BrokerSettings
from tests.broker.raw_client import Connect, RawClient, request_module, until
from tests.broker.test_connections import HELLO, METADATA, create, produce

CREATE_TOPICS = request_module("create_topics", 7)
CREATE_PARTITIONS = request_module("create_partitions", 3)
DELETE_TOPICS = request_module("delete_topics", 6)
ALTER_CONFIGS = request_module("incremental_alter_configs", 1)
INIT_PRODUCER_ID = request_module("init_producer_id", 4)

SECOND = timedelta(seconds=1)


def refuse(*_: object) -> None:
    raise StorageFull("no space left")


def fail(*_: object) -> int:
    raise StorageFailed("fsync failed")


async def ask_for_changes(client: RawClient) -> list[ErrorCode]:
    """Try everything that a journal remembers; the code of each answer."""
    created = await client.ask(
        CREATE_TOPICS.CreateTopicsRequest(
            topics=(
                CREATE_TOPICS.CreatableTopic(
                    name="new", num_partitions=1, replication_factor=1, assignments=(), configs=()
                ),
            )
        )
    )
    grown = await client.ask(
        CREATE_PARTITIONS.CreatePartitionsRequest(
            topics=(
                CREATE_PARTITIONS.CreatePartitionsTopic(name="old", count=9, assignments=None),
            ),
            timeout=SECOND,
            validate_only=False,
        )
    )
    change = ALTER_CONFIGS.AlterableConfig(name="retention.ms", config_operation=0, value="1")
    altered = await client.ask(
        ALTER_CONFIGS.IncrementalAlterConfigsRequest(
            resources=(
                ALTER_CONFIGS.AlterConfigsResource(
                    resource_type=2, resource_name="old", configs=(change,)
                ),
            ),
            validate_only=False,
        )
    )
    deleted = await client.ask(
        DELETE_TOPICS.DeleteTopicsRequest(
            topics=(DELETE_TOPICS.DeleteTopicState(name="old", topic_id=None),), timeout=SECOND
        )
    )
    return [
        created.topics[0].error_code,
        grown.results[0].error_code,
        altered.responses[0].error_code,
        deleted.responses[0].error_code,
    ]


async def ask_for_what_is_tried_again(client: RawClient) -> list[ErrorCode]:
    """An automatic topic and a producer id; the code of each answer."""
    described = await client.ask(
        METADATA.MetadataRequest(
            topics=(METADATA.MetadataRequestTopic(name="automatic", topic_id=None),),
            include_topic_authorized_operations=False,
        )
    )
    initialised = await client.ask(
        INIT_PRODUCER_ID.InitProducerIdRequest(
            transactional_id=None, transaction_timeout=SECOND, producer_id=-1, producer_epoch=-1
        )
    )
    return [described.topics[0].error_code, initialised.error_code]


async def test_a_full_disk_is_told_for_every_change_and_changes_nothing(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect()
    await create(client, "old")
    with monkeypatch.context() as full:
        full.setattr(Journal, "append", refuse)
        assert await ask_for_changes(client) == [ErrorCode.kafka_storage_error] * 4
        assert await ask_for_what_is_tried_again(client) == [
            ErrorCode.leader_not_available,
            ErrorCode.coordinator_not_available,
        ]
    assert [topic.name for topic in server.core.topics] == ["old"]
    assert await ask_for_what_is_tried_again(client) == [ErrorCode.none] * 2
    assert await ask_for_changes(client) == [ErrorCode.none] * 4


async def test_a_failed_sync_is_told_for_every_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(BrokerSettings(data=tmp_path / "data", listen="127.0.0.1:0", flush="ack"))
    await server.start()
    client = await RawClient.connect(server.address)
    await create(client, "old")
    with monkeypatch.context() as failing:
        failing.setattr(Journal, "flush", fail)
        assert await ask_for_changes(client) == [ErrorCode.kafka_storage_error] * 4
        assert await ask_for_what_is_tried_again(client) == [
            ErrorCode.leader_not_available,
            ErrorCode.coordinator_not_available,
        ]
    assert (await client.ask(HELLO)).error_code is ErrorCode.none
    await client.close()
    await server.stop()


async def test_a_topic_is_shown_to_others_only_once_it_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(BrokerSettings(data=tmp_path / "data", listen="127.0.0.1:0", flush="ack"))
    await server.start()
    maker, other = [await RawClient.connect(server.address) for _ in range(2)]
    ready = threading.Event()
    flush = Journal.flush

    def wait_and_flush(journal: Journal) -> int:
        ready.wait(20)
        return flush(journal)

    monkeypatch.setattr(Journal, "flush", wait_and_flush)
    making = asyncio.ensure_future(create(maker, "fresh"))
    await until(lambda: "fresh" in server.core.topics)
    asking = asyncio.ensure_future(
        other.ask(
            METADATA.MetadataRequest(
                topics=(METADATA.MetadataRequestTopic(name="fresh", topic_id=None),),
                include_topic_authorized_operations=False,
            )
        )
    )
    await asyncio.wait([asking], timeout=0.1)
    assert not asking.done()
    ready.set()
    await making
    assert (await asking).topics[0].error_code is ErrorCode.none
    for client in (maker, other):
        await client.close()
    await server.stop()


async def test_a_broker_that_cannot_open_its_journals_leaves_no_thread_and_no_lock(
    tmp_path: Path,
) -> None:
    settings = BrokerSettings(data=tmp_path / "data", listen="127.0.0.1:0")
    await Server(settings).stop()
    journal = settings.data / "groups.journal"
    whole = journal.read_bytes()
    journal.write_bytes(b"something else entirely")
    with pytest.raises(LogError):
        Server(settings)
    assert not [one for one in threading.enumerate() if one.name.startswith("headrace-sync")]
    journal.write_bytes(whole)
    await Server(settings).stop()


def test_a_producer_id_that_could_not_be_reserved_is_not_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DataDirectory.open(tmp_path) as directory:
        ids = ProducerIds(directory)
        with monkeypatch.context() as full:
            full.setattr(Journal, "append", refuse)
            for _ in range(2):
                with pytest.raises(StorageFull):
                    ids.allocate()
        given = {ids.allocate() for _ in range(BLOCK + 1)}
        ids.journal.close()
        again = ProducerIds(directory)
        assert again.allocate() not in given
        again.journal.close()


async def test_housekeeping_goes_on_where_one_partition_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(10_000)
    settings = BrokerSettings(
        data=tmp_path / "data", listen="127.0.0.1:0", flush="os", retention_ms=1_000
    )
    server = Server(settings, clock=clock)
    await server.start()
    client = await RawClient.connect(server.address)
    for name in ("broken", "whole"):
        await create(client, name)
        await client.ask(produce(name, b"old"))
    broken, whole = (topic.partitions[0].log for topic in server.core.topics)
    checkpoint = PartitionLog.checkpoint
    checkpointed = []

    def check(log: PartitionLog) -> None:
        checkpointed.append(log)
        if log is broken:
            raise StorageFull("no space left")
        checkpoint(log)

    def roll(log: PartitionLog) -> None:
        raise StorageFull("no space left")

    monkeypatch.setattr(PartitionLog, "checkpoint", check)
    monkeypatch.setattr(PartitionLog, "roll_if_due", roll)
    housekeeping = Housekeeping(server.core, server)
    await housekeeping._checkpoint()
    assert checkpointed == [broken, whole]
    clock.advance(3_600)
    await housekeeping._retain()
    assert (broken.start_offset, whole.start_offset) == (1, 1)
    monkeypatch.undo()
    await client.close()
    await server.stop()
