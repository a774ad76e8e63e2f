"""Leader epochs and topic ids: how newer clients notice that the log is not the one they knew."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.records import build_batch, iterate_headers
from tests.clients.stored import append
from tests.clients.wire import Wire
from tests.clusters import Cluster

BATCH = build_batch([(None, b"x")] * 5, timestamp=1)


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster) as connection:
        yield connection


def described(wire: Wire, topic: str) -> Any:
    (found,) = wire.ask(
        "metadata",
        12,
        topics=[{"topic_id": None, "name": topic}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    ).topics
    return found


def fetch_by_id(wire: Wire, topic_id: uuid.UUID, epoch: int = -1, **session: int) -> Any:
    return wire.ask(
        "fetch",
        13,
        replica_id=-1,
        max_wait=timedelta(0),
        min_bytes=1,
        topics=[
            {
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": epoch,
                        "fetch_offset": 0,
                        "partition_max_bytes": 1 << 20,
                    }
                ],
            }
        ],
        forgotten_topics_data=[],
        **session,
    )


def epoch_end(wire: Wire, topic: str, epoch: int, current: int = -1) -> Any:
    place = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
    answer = wire.ask(
        "offset_for_leader_epoch", 3, topics=[{"topic": topic, "partitions": [place]}]
    )
    return answer.topics[0].partitions[0]


def test_a_topic_is_fetched_by_its_id(wire: Wire, topic: str):
    append(wire, topic, BATCH)
    (found,) = fetch_by_id(wire, described(wire, topic).topic_id).responses
    (partition,) = found.partitions
    assert partition.error_code is ErrorCode.none
    assert [header.record_count for _, header in iterate_headers(partition.records)] == [5]


def test_an_id_that_is_not_known_is_named_as_such(wire: Wire, topic: str):
    (found,) = fetch_by_id(wire, uuid.uuid4()).responses
    assert found.partitions[0].error_code is ErrorCode.unknown_topic_id


def test_metadata_is_found_by_id(wire: Wire, topic: str):
    known = described(wire, topic)
    asked = [{"topic_id": known.topic_id, "name": None}, {"topic_id": uuid.uuid4(), "name": None}]
    answer = wire.ask(
        "metadata",
        12,
        topics=asked,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    outcomes = {found.topic_id: (found.error_code, found.name) for found in answer.topics}
    assert outcomes[known.topic_id] == (ErrorCode.none, topic)
    assert outcomes[asked[1]["topic_id"]] == (ErrorCode.unknown_topic_id, None)


def test_stored_batches_carry_the_epoch_that_metadata_tells(wire: Wire, topic: str):
    append(wire, topic, BATCH)
    known = described(wire, topic)
    epoch = known.partitions[0].leader_epoch
    (found,) = fetch_by_id(wire, known.topic_id, epoch).responses
    ((_, header),) = iterate_headers(found.partitions[0].records)
    assert header.leader_epoch == epoch


def test_a_client_from_the_future_and_one_from_the_past_are_refused(wire: Wire, topic: str):
    append(wire, topic, BATCH)
    known = described(wire, topic)
    epoch = known.partitions[0].leader_epoch
    (ahead,) = fetch_by_id(wire, known.topic_id, epoch + 1).responses
    assert ahead.partitions[0].error_code is ErrorCode.unknown_leader_epoch
    assert epoch_end(wire, topic, epoch, current=epoch + 1).error_code is (
        ErrorCode.unknown_leader_epoch
    )


def test_the_end_of_an_epoch_is_where_the_log_ends(wire: Wire, topic: str):
    append(wire, topic, BATCH)
    epoch = described(wire, topic).partitions[0].leader_epoch
    current = epoch_end(wire, topic, epoch)
    unknown = epoch_end(wire, topic, epoch + 5)
    assert (current.error_code, current.leader_epoch, current.end_offset) == (
        ErrorCode.none,
        epoch,
        5,
    )
    assert (unknown.leader_epoch, unknown.end_offset) == (-1, -1)


def test_a_fetch_session_that_is_not_there_is_not_continued(wire: Wire, topic: str):
    answer = fetch_by_id(wire, described(wire, topic).topic_id, session_id=987_654, session_epoch=3)
    assert answer.error_code is ErrorCode.fetch_session_id_not_found


def test_a_new_fetch_session_may_be_declined_but_is_answered_in_full(wire: Wire, topic: str):
    append(wire, topic, BATCH)
    known = described(wire, topic)
    answer = fetch_by_id(wire, known.topic_id, session_id=0, session_epoch=0)
    assert answer.error_code is ErrorCode.none
    assert [
        header.base_offset
        for _, header in iterate_headers(answer.responses[0].partitions[0].records)
    ] == [0]
