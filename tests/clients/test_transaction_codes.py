"""What both brokers answer to each request of a transaction, right or wrong."""

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

from tests.clients.librdkafka import eventually
from tests.clients.transaction_wire import Ended, TransactionWire
from tests.clients.wire import Wire
from tests.clusters import Cluster

pytestmark = pytest.mark.partitions(2)

OK = ErrorCode.none
FENCED = ErrorCode.producer_fenced
STALE = ErrorCode.invalid_producer_epoch
UNKNOWN = ErrorCode.invalid_producer_id_mapping
INVALID_STATE = ErrorCode.invalid_txn_state
ABORTABLE = ErrorCode.transaction_abortable


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster) as connection:
        yield connection


@pytest.fixture
def producer(wire: Wire, topic: str) -> TransactionWire:
    """A producer that has been initialized twice, so that it has an epoch below its own."""
    made = TransactionWire(wire, topic, topic)
    made.initialize()
    made.initialize()
    return made


def test_initialization_refuses_what_cannot_be(wire: Wire, topic: str):
    made = TransactionWire(wire, topic, topic)
    assert made.init(transactional_id="") is ErrorCode.invalid_request
    for timeout_ms in (-5, 0, 900_001):
        assert made.init(timeout_ms=timeout_ms) is ErrorCode.invalid_transaction_timeout
    assert made.init(claim=(5, -1)) is ErrorCode.invalid_request
    assert made.init(timeout_ms=900_000) is OK
    assert made.epoch == 0


def test_each_initialization_raises_the_epoch_of_the_same_producer(producer: TransactionWire):
    before = producer.producer_id, producer.epoch
    assert producer.init() is OK
    assert (producer.producer_id, producer.epoch) == (before[0], before[1] + 1)


def test_a_producer_may_go_on_if_nobody_else_came(producer: TransactionWire):
    was = producer.producer_id, producer.epoch
    assert producer.init(claim=was) is OK
    assert producer.epoch == was[1] + 1
    assert producer.init(claim=was) is OK
    assert producer.epoch == was[1] + 1
    assert producer.init(claim=(was[0], was[1] - 1)) is FENCED
    assert producer.init(claim=(was[0], was[1] - 1), version=3) is STALE
    assert producer.init(claim=(was[0] + 7_777, was[1])) is FENCED
    producer.initialize()
    assert producer.init(claim=was) is FENCED


def test_partitions_are_added_by_their_producer_only(producer: TransactionWire):
    old = producer.epoch - 1
    assert producer.add(0, id=f"{producer.id}-other") == [UNKNOWN]
    assert producer.add(0, id="") == [ErrorCode.invalid_request]
    assert producer.add(0, producer_id=producer.producer_id + 5) == [UNKNOWN]
    assert producer.add(0, epoch=old) == [FENCED]
    assert producer.add(0, epoch=old, version=1) == [STALE]
    assert producer.add(0, epoch=producer.epoch + 1) == [FENCED]
    assert producer.add(0, 9) == [
        ErrorCode.operation_not_attempted,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert producer.state() == "Empty"
    assert producer.add(0, 1) == [OK, OK]
    assert producer.state() == "Ongoing"


def test_brokers_may_ask_what_is_part_of_a_transaction(producer: TransactionWire):
    assert producer.verify(0) == [ABORTABLE]
    producer.add(0)
    assert producer.verify(0, 1) == [OK, ABORTABLE]
    producer.epoch -= 1
    assert producer.verify(0) == [FENCED]


def test_a_batch_needs_a_partition_of_the_transaction(producer: TransactionWire):
    old = producer.epoch - 1
    assert producer.produce(0) is INVALID_STATE
    assert producer.produce(0, version=11) is ABORTABLE
    producer.add(0)
    assert producer.produce(0) is OK
    assert producer.produce(0) is OK
    assert producer.produce(0, partition=1) is INVALID_STATE
    assert producer.produce(0, partition=1, version=11) is ABORTABLE
    assert producer.produce(1, epoch=old) is STALE
    assert producer.produce(0, epoch=old, partition=1) is STALE
    assert producer.produce(0, producer_id=producer.producer_id + 900, partition=1) is UNKNOWN
    unnamed = producer.produce(1, named=False)
    assert unnamed is ErrorCode.transactional_id_authorization_failed
    assert producer.produce(1, transactional=False) is INVALID_STATE
    assert producer.produce(1, transactional=False, named=False) is INVALID_STATE
    assert producer.produce(1) is OK


def test_an_end_may_be_asked_for_again_but_not_changed(producer: TransactionWire):
    assert producer.end(commit=True) == Ended(INVALID_STATE)
    assert producer.end(commit=False) == Ended(INVALID_STATE)
    for commit in (True, False):
        producer.add(0)
        assert producer.end(commit=commit) == Ended(OK)
        assert producer.end(commit=commit) == Ended(OK)
        assert producer.end(commit=not commit) == Ended(INVALID_STATE)


def test_an_end_is_its_producers_business(producer: TransactionWire):
    old = producer.epoch - 1
    producer.add(0)
    assert producer.end(commit=True, id=f"{producer.id}-other") == Ended(UNKNOWN)
    assert producer.end(commit=True, id="") == Ended(ErrorCode.invalid_request)
    assert producer.end(commit=True, producer_id=producer.producer_id + 5) == Ended(UNKNOWN)
    assert producer.end(commit=True, epoch=old) == Ended(FENCED)
    assert producer.end(commit=True, epoch=old, version=1) == Ended(STALE)


def test_a_new_instance_ends_the_open_transaction(producer: TransactionWire):
    producer.add(0)
    assert producer.produce(0) is OK
    fenced = producer.epoch
    producer.initialize()
    assert producer.epoch == fenced + 2
    assert producer.state() == "Empty"
    assert producer.end(commit=True, epoch=fenced) == Ended(FENCED)
    assert producer.produce(1, epoch=fenced) is STALE


def test_offsets_wait_for_the_end_of_the_transaction(producer: TransactionWire, group: str):
    assert producer.add_group(group, epoch=producer.epoch - 1) is FENCED
    assert producer.add_group(group, epoch=producer.epoch - 1, version=1) is STALE
    assert producer.add_group(group) is OK
    assert eventually(lambda: producer.send_offset(group, 5) is OK)
    assert producer.send_offset(group, 5, epoch=producer.epoch - 1) is STALE
    assert producer.send_offset(group, 5, producer_id=producer.producer_id + 9) is UNKNOWN
    unknown = producer.send_offset(group, 5, generation=3, member="nobody")
    assert unknown is ErrorCode.unknown_member_id
    assert producer.fetch_offset(group, stable=True) == (-1, ErrorCode.unstable_offset_commit)
    assert producer.fetch_offset(group, stable=False) == (-1, OK)
    assert producer.end(commit=True) == Ended(OK)
    assert eventually(lambda: producer.fetch_offset(group, stable=True) == (5, OK))


def test_offsets_are_refused_outside_of_the_transaction(producer: TransactionWire, group: str):
    producer.add(0)
    assert eventually(lambda: producer.send_offset(group, 5) is INVALID_STATE)


class TestRaisedEpochs:
    """KIP-890: partitions are added by their batches, and every end raises the epoch."""

    def test_a_transaction_begins_with_its_first_batch(self, producer: TransactionWire):
        assert producer.produce(5, version=12) is ErrorCode.out_of_order_sequence_number
        assert producer.produce(0, version=12) is OK
        assert producer.produce(0, version=12, partition=1) is OK
        assert producer.produce(1, version=12, epoch=producer.epoch - 1) is STALE
        assert producer.state() == "Ongoing"

    def test_an_end_raises_the_epoch_and_may_be_asked_for_again(self, producer: TransactionWire):
        producer.produce(0, version=12)
        raised = Ended(OK, producer.producer_id, producer.epoch + 1)
        assert producer.end(commit=True, version=5) == raised
        assert producer.end(commit=True, version=5) == raised
        assert producer.end(commit=False, version=5) == Ended(INVALID_STATE)
        assert producer.produce(1, version=12) is STALE
        producer.epoch += 1
        assert producer.end(commit=True, version=5) == Ended(INVALID_STATE)
        assert producer.end(commit=True, version=5, epoch=producer.epoch + 4) == Ended(FENCED)
        assert producer.produce(3, version=12) is ErrorCode.out_of_order_sequence_number
        assert producer.produce(0, version=12) is OK

    def test_an_abort_without_a_transaction_raises_the_epoch(self, producer: TransactionWire):
        assert producer.end(commit=True, version=5) == Ended(INVALID_STATE)
        raised = Ended(OK, producer.producer_id, producer.epoch + 1)
        assert producer.end(commit=False, version=5) == raised
        assert producer.end(commit=False, version=5) == raised

    def test_offsets_add_their_group(self, producer: TransactionWire, group: str):
        assert eventually(lambda: producer.send_offset(group, 7, version=5) is OK)
        assert producer.send_offset(group, 7, version=5, epoch=producer.epoch - 1) is STALE
        assert producer.end(commit=True, version=5).error_code is OK
        assert eventually(lambda: producer.fetch_offset(group, stable=True) == (7, OK))

    def test_both_protocols_can_be_mixed(self, producer: TransactionWire):
        producer.produce(0, version=12)
        assert producer.end(commit=True) == Ended(OK)
        producer.add(0)
        assert producer.produce(1) is OK
        raised = Ended(OK, producer.producer_id, producer.epoch + 1)
        assert producer.end(commit=False, version=5) == raised


@pytest.mark.parametrize("version", [3, 5])
def test_a_transaction_that_takes_too_long_is_aborted(wire: Wire, topic: str, version: int):
    late = TransactionWire(wire, topic, topic)
    late.initialize(timeout_ms=500)
    if version >= 5:
        assert late.produce(0, version=12) is OK
    else:
        late.add(0)
        assert late.produce(0) is OK
    assert eventually(lambda: late.state() == "CompleteAbort")
    assert late.produce(1) is STALE
    if version >= 5:
        assert late.end(commit=True, version=5) == Ended(INVALID_STATE)
        raised = Ended(OK, late.producer_id, late.epoch + 1)
        assert late.end(commit=False, version=5) == raised
    else:
        assert late.end(commit=True) == Ended(FENCED)
        assert late.end(commit=False) == Ended(FENCED)
    was = late.producer_id, late.epoch
    assert late.init(claim=was) is OK
    assert late.epoch == was[1] + 1
