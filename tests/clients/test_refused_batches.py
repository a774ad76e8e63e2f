"""Record batches that must not get into the log, and the error that says why."""

import struct
from collections.abc import Iterator
from datetime import timedelta

import crc32c
import pytest
from kio.schema.errors import ErrorCode

from headrace.records import build_batch
from tests.clients.stored import Appended, append, fetch
from tests.clients.wire import Wire
from tests.clusters import Cluster
from tests.conftest import TopicFactory

GOOD = bytes(build_batch([(b"k", b"value")] * 3, timestamp=1_000))
TIMEOUT = timedelta(seconds=10)


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster) as connection:
        yield connection


def altered(position: int, layout: str, value: int) -> bytes:
    """The good batch with one field changed and its checksum left as it was."""
    batch = bytearray(GOOD)
    struct.pack_into(layout, batch, position, value)
    return bytes(batch)


def rechecked(batch: bytearray) -> None:
    """Give the batch a checksum that fits what is in it now."""
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))


def refused(wire: Wire, topic: str, records: bytes | bytearray) -> ErrorCode:
    appended = append(wire, topic, records)
    assert appended is not None
    assert appended.base_offset == -1
    assert fetch(wire, topic, 0).high_watermark == 0
    return appended.error_code


def test_a_good_batch_is_accepted(wire: Wire, topic: str):
    assert append(wire, topic, GOOD) == Appended(ErrorCode.none, 0, None, 0)
    assert append(wire, topic, GOOD) == Appended(ErrorCode.none, 3, None, 0)


def test_a_flipped_bit_is_noticed(wire: Wire, topic: str):
    flipped = bytearray(GOOD)
    flipped[-3] ^= 1
    assert refused(wire, topic, flipped) is ErrorCode.corrupt_message


def test_a_wrong_checksum_is_noticed(wire: Wire, topic: str):
    assert refused(wire, topic, altered(17, ">I", 12345)) is ErrorCode.corrupt_message


def test_a_batch_without_records_is_refused(wire: Wire, topic: str):
    assert refused(wire, topic, b"") is ErrorCode.invalid_record


def test_two_batches_for_one_partition_are_refused(wire: Wire, topic: str):
    assert refused(wire, topic, GOOD + GOOD) is ErrorCode.invalid_record


def test_a_batch_that_is_cut_short_is_refused(wire: Wire, topic: str):
    assert refused(wire, topic, GOOD[:-5]) is ErrorCode.invalid_record


def test_a_control_batch_from_a_client_is_refused(wire: Wire, topic: str):
    control = build_batch(
        [(b"\0\0\0\1", b"")],
        timestamp=1,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        control=True,
    )
    assert refused(wire, topic, control) is ErrorCode.invalid_record


def test_a_count_that_contradicts_the_offsets_is_refused(wire: Wire, topic: str):
    batch = bytearray(GOOD)
    struct.pack_into(">i", batch, 57, 2)
    rechecked(batch)
    assert refused(wire, topic, batch) is ErrorCode.invalid_record


def test_an_unknown_codec_is_refused(wire: Wire, topic: str):
    batch = bytearray(GOOD)
    struct.pack_into(">h", batch, 21, 7)
    rechecked(batch)
    # Apache Kafka stumbles over the number instead of naming the fault.
    assert refused(wire, topic, batch) in {
        ErrorCode.invalid_record,
        ErrorCode.unknown_server_error,
    }


def test_a_topic_that_is_not_there_is_named_in_the_answer(wire: Wire, fresh_name: str):
    appended = append(wire, fresh_name, GOOD)
    assert appended is not None
    assert appended.error_code is ErrorCode.unknown_topic_or_partition


def test_one_bad_partition_does_not_spoil_the_others(wire: Wire, new_topic: TopicFactory):
    topic = new_topic(partitions=3)
    answer = wire.ask(
        "produce",
        9,
        transactional_id=None,
        acks=-1,
        timeout=TIMEOUT,
        topic_data=[
            {
                "name": topic,
                "partition_data": [
                    {"index": 0, "records": GOOD},
                    {"index": 1, "records": altered(17, ">I", 0)},
                    {"index": 2, "records": GOOD},
                ],
            }
        ],
    )
    outcomes = {
        one.index: (one.error_code, one.base_offset)
        for one in answer.responses[0].partition_responses
    }
    assert outcomes == {
        0: (ErrorCode.none, 0),
        1: (ErrorCode.corrupt_message, -1),
        2: (ErrorCode.none, 0),
    }


def test_an_acknowledgement_that_does_not_exist_is_refused(wire: Wire, topic: str):
    appended = append(wire, topic, GOOD, acks=2)
    assert appended is not None
    assert appended.error_code is ErrorCode.invalid_required_acks
