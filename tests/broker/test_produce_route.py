"""A producer that repeats itself gets the same answers as one that does not."""

import random
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.handlers import produce
from headrace.broker.handlers.produce_route import Route
from headrace.broker.server import Server
from headrace.records import build_batch
from tests.broker.raw_client import Connect, request_frame, request_module
from tests.broker.test_connections import create

GOOD = bytes(build_batch([(None, b"value")], timestamp=1_000))
CORRUPT = GOOD[:-1] + bytes([GOOD[-1] ^ 1])
TWO_BATCHES = GOOD + GOOD


def request(
    topic: Any,
    records: bytes | None = GOOD,
    *,
    version: int = 10,
    partition: int = 0,
    acks: int = 1,
) -> Any:
    module = request_module("produce", version)
    naming = {"name": topic} if version < 13 else {"topic_id": topic}
    return module.ProduceRequest(
        acks=acks,
        timeout=timedelta(seconds=1),
        transactional_id=None,
        topic_data=(
            module.TopicProduceData(
                **naming,
                partition_data=(module.PartitionProduceData(index=partition, records=records),),
            ),
        ),
    )


def result_of(response: Any) -> Any:
    ((result,),) = (topic.partition_responses for topic in response.responses)
    return result


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch) -> list[Route]:
    """Every route that a request has taken to its end."""
    taken: list[Route] = []
    answer_on = produce.answer_on

    def watched(route: Route, *rest: Any) -> Any:
        reply = answer_on(route, *rest)
        if reply is not None:
            taken.append(route)
        return reply

    monkeypatch.setattr(produce, "answer_on", watched)
    return taken


@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("version", range(9, 14))
async def test_the_second_request_takes_the_route_of_the_first(
    server: Server, connect: Connect, routed: list[Route], version: int, acks: int
) -> None:
    client = await connect()
    await create(client, "t")
    topic = server.core.topics.get("t")
    assert topic is not None
    naming = topic.id if version >= 13 else "t"
    for number in range(3):
        response = await client.ask(request(naming, version=version, acks=acks), number)
        assert result_of(response).base_offset == number
    assert len(routed) == 2


async def test_any_sequence_of_requests_gets_the_answers_of_separate_connections(
    server: Server, connect: Connect, routed: list[Route]
) -> None:
    source = random.Random(5)
    client = await connect()
    for name in ("kept", "apart"):
        await create(client, name)
    topics = {name: server.core.topics.get(name) for name in ("kept", "apart")}
    for turn in range(400):
        if turn % 8 == 0:
            version, acks = source.choice([8, 10, 10, 13]), source.choice([-1, 1, 7])
        records = source.choice([GOOD, GOOD, GOOD, CORRUPT, TWO_BATCHES, GOOD[:70], b"", None])
        partition = source.choice([0, 0, 0, 1, -1])
        answers = []
        for name in ("kept", "apart"):
            topic = topics[name]
            assert topic is not None
            naming = topic.id if version >= 13 else name
            asker = client if name == "kept" else await connect()
            wanted = request(naming, records, version=version, partition=partition, acks=acks)
            result = result_of(await asker.ask(wanted))
            answers.append((result.error_code, result.base_offset, result.index))
            if asker is not client:
                await asker.close()
        assert answers[0] == answers[1]
    assert len(routed) > 30


async def test_a_route_ends_with_its_topic(server: Server, connect: Connect) -> None:
    client = await connect()
    await create(client, "t")
    assert result_of(await client.ask(request("t"))).error_code is ErrorCode.none
    deletion = request_module("delete_topics", 4)
    await client.ask(deletion.DeleteTopicsRequest(topic_names=("t",), timeout=timedelta(1)))
    gone = result_of(await client.ask(request("t")))
    assert gone.error_code is ErrorCode.unknown_topic_or_partition
    await create(client, "t")
    assert result_of(await client.ask(request("t"))).base_offset == 0


async def test_a_route_waits_for_syncs_once_the_topic_does(
    server: Server, connect: Connect, routed: list[Route]
) -> None:
    client = await connect()
    await create(client, "t")
    topic = server.core.topics.get("t")
    assert topic is not None
    await client.ask(request("t", acks=-1))
    server.core.topics.configure(topic, {"flush": "ack"})
    syncs = server.core.commits.syncs
    assert result_of(await client.ask(request("t", acks=-1))).base_offset == 1
    assert server.core.commits.syncs > syncs
    assert routed == []


async def test_no_cut_or_padded_request_takes_a_route(server: Server, connect: Connect) -> None:
    client = await connect()
    await create(client, "t")
    await client.ask(request("t"))
    (connection,) = server._connections
    route = connection.route
    assert route is not None
    frame = bytearray(request_frame(request("t"))[4:])
    whole = route.match(memoryview(frame), 10)
    assert whole is not None
    assert whole[0] == 0
    assert bytes(whole[1]) == GOOD
    for end in range(len(frame)):
        assert route.match(memoryview(frame[:end]), 10) is None
    assert route.match(memoryview(frame + b"\0"), 10) is None
    assert route.match(memoryview(frame), 9) is None


async def test_a_request_for_no_partition_at_all_is_answered(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "t")
    module = request_module("produce", 10)
    for topics in ((), (module.TopicProduceData(name="t", partition_data=()),)):
        empty = module.ProduceRequest(
            acks=1, timeout=timedelta(seconds=1), transactional_id=None, topic_data=topics
        )
        assert len((await client.ask(empty)).responses) == len(topics)
