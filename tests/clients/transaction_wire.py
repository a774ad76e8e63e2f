"""Transactions request by request, for answers that client libraries keep to themselves."""

from datetime import timedelta
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from headrace.records import build_batch
from tests.clients.librdkafka import eventually
from tests.clients.wire import Wire

LATER = {
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
}
"""What a client answers by asking again; how often a broker says so is its own business."""


class Ended(NamedTuple):
    """What EndTxn answers."""

    error_code: ErrorCode
    producer_id: int = -1
    epoch: int = -1


class TransactionWire:
    """One transactional id on one connection, in any version of the protocol."""

    def __init__(self, wire: Wire, transactional_id: str, topic: str) -> None:
        self.wire = wire
        self.id = transactional_id
        self.topic = topic
        self.producer_id = -1
        self.epoch = -1
        # Apache Kafka keeps transactions and offsets in topics that are made when asked for.
        for key_type in (0, 1):
            wire.ask("find_coordinator", 3, key=transactional_id, key_type=key_type)

    def initialize(self, *, timeout_ms: int = 60_000) -> None:
        """Become a new instance of the producer."""
        code = self.init(timeout_ms=timeout_ms)
        assert code is ErrorCode.none, code

    def init(
        self,
        *,
        timeout_ms: int = 60_000,
        version: int = 4,
        transactional_id: str | None = None,
        claim: tuple[int, int] = (-1, -1),
    ) -> ErrorCode:
        """Ask for an identity, and take it on if there is one."""
        fields: dict[str, Any] = {
            "transactional_id": self.id if transactional_id is None else transactional_id,
            "transaction_timeout": timedelta(milliseconds=timeout_ms),
        }
        if version >= 3:
            fields |= {"producer_id": claim[0], "producer_epoch": claim[1]}

        def ask() -> Any:
            answer = self.wire.ask("init_producer_id", version, **fields)
            return None if answer.error_code in LATER else answer

        answer = eventually(ask)
        if answer.error_code is ErrorCode.none:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        code: ErrorCode = answer.error_code
        return code

    def add(self, *partitions: int, version: int = 3, **changes: Any) -> list[ErrorCode]:
        """Add partitions; the codes in the order of the partitions."""
        fields = {"id": self.id, "producer_id": self.producer_id, "epoch": self.epoch} | changes

        def ask() -> Any:
            answer = self.wire.ask(
                "add_partitions_to_txn",
                version,
                v3_and_below_transactional_id=fields["id"],
                v3_and_below_producer_id=fields["producer_id"],
                v3_and_below_producer_epoch=fields["epoch"],
                v3_and_below_topics=[{"name": self.topic, "partitions": partitions}],
            )
            codes = {
                result.partition_index: result.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            }
            return None if LATER.intersection(codes.values()) else codes

        return [code for _, code in sorted(eventually(ask).items())]

    def verify(self, *partitions: int) -> list[ErrorCode]:
        """Ask as a broker does whether partitions are part of the transaction."""
        answer = self.wire.ask(
            "add_partitions_to_txn",
            5,
            transactions=[
                {
                    "transactional_id": self.id,
                    "producer_id": self.producer_id,
                    "producer_epoch": self.epoch,
                    "verify_only": True,
                    "topics": [{"name": self.topic, "partitions": partitions}],
                }
            ],
        )
        assert answer.error_code is ErrorCode.none
        (result,) = answer.results_by_transaction
        codes = {
            each.partition_index: each.partition_error_code
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        return [code for _, code in sorted(codes.items())]

    def produce(
        self,
        sequence: int,
        *,
        partition: int = 0,
        version: int = 9,
        transactional: bool = True,
        named: bool = True,
        **changes: int,
    ) -> ErrorCode:
        """Send a batch of one record."""
        fields = {"producer_id": self.producer_id, "epoch": self.epoch} | changes
        batch = build_batch(
            [(b"key", b"value")],
            timestamp=1,
            producer_id=fields["producer_id"],
            producer_epoch=fields["epoch"],
            base_sequence=sequence,
            transactional=transactional,
        )
        answer = self.wire.ask(
            "produce",
            version,
            transactional_id=self.id if named else None,
            acks=-1,
            timeout=timedelta(seconds=10),
            topic_data=[
                {
                    "name": self.topic,
                    "partition_data": [{"index": partition, "records": bytes(batch)}],
                }
            ],
        )
        code: ErrorCode = answer.responses[0].partition_responses[0].error_code
        return code

    def end(self, *, commit: bool, version: int = 3, **changes: Any) -> Ended:
        """Commit or abort."""
        fields = {"id": self.id, "producer_id": self.producer_id, "epoch": self.epoch} | changes

        def ask() -> Any:
            answer = self.wire.ask(
                "end_txn",
                version,
                transactional_id=fields["id"],
                producer_id=fields["producer_id"],
                producer_epoch=fields["epoch"],
                committed=commit,
            )
            return None if answer.error_code in LATER else answer

        answer = eventually(ask)
        if version < 5:
            return Ended(answer.error_code)
        return Ended(answer.error_code, answer.producer_id, answer.producer_epoch)

    def add_group(self, group: str, *, version: int = 3, **changes: Any) -> ErrorCode:
        """Announce offsets of a group."""
        fields = {"producer_id": self.producer_id, "epoch": self.epoch} | changes

        def ask() -> Any:
            answer = self.wire.ask(
                "add_offsets_to_txn",
                version,
                transactional_id=self.id,
                producer_id=fields["producer_id"],
                producer_epoch=fields["epoch"],
                group_id=group,
            )
            return None if answer.error_code in LATER else answer

        code: ErrorCode = eventually(ask).error_code
        return code

    def send_offset(
        self,
        group: str,
        offset: int,
        *,
        version: int = 3,
        generation: int = -1,
        member: str = "",
        **changes: Any,
    ) -> ErrorCode:
        """Commit an offset of partition 0 with the transaction."""
        fields = {"producer_id": self.producer_id, "epoch": self.epoch} | changes
        answer = self.wire.ask(
            "txn_offset_commit",
            version,
            transactional_id=self.id,
            group_id=group,
            producer_id=fields["producer_id"],
            producer_epoch=fields["epoch"],
            generation_id=generation,
            member_id=member,
            group_instance_id=None,
            topics=[
                {
                    "name": self.topic,
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": offset,
                            "committed_leader_epoch": -1,
                            "committed_metadata": None,
                        }
                    ],
                }
            ],
        )
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code

    def fetch_offset(self, group: str, *, stable: bool) -> tuple[int, ErrorCode]:
        """What the group has committed for partition 0."""
        answer = self.wire.ask(
            "offset_fetch",
            7,
            group_id=group,
            topics=[{"name": self.topic, "partition_indexes": (0,)}],
            require_stable=stable,
        )
        found = answer.topics[0].partitions[0]
        return found.committed_offset, found.error_code

    def state(self) -> str:
        """What the coordinator says that the transaction is doing."""
        answer = self.wire.ask("list_transactions", 0, state_filters=(), producer_id_filters=())
        (found,) = (each for each in answer.transaction_states if each.transactional_id == self.id)
        state: str = found.transaction_state
        return state
