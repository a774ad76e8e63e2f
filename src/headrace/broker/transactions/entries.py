"""What the journal of transactions says: its entries, as values and as bytes.

An entry is a JSON array that begins with its kind and its version. Each entry tells everything
about one transactional id, so that only the last one of each counts.
"""

from typing import Final, NamedTuple

import orjson

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.transactions.state import TransactionRecord, TransactionState
from headrace.errors import HeadraceError

VERSION: Final = 1
"""The form of the entries."""


class UnreadableEntry(HeadraceError):
    """The journal of transactions says something that this version does not understand."""


class Forgotten(NamedTuple):
    """A transactional id has expired."""

    transactional_id: str


Entry = TransactionRecord | Forgotten
"""Anything that the journal can say."""


def encode(entry: Entry) -> bytes:
    """The bytes of an entry.

    >>> encode(Forgotten("payments"))
    b'["forgotten",1,"payments"]'
    """
    if isinstance(entry, Forgotten):
        return orjson.dumps(["forgotten", VERSION, entry.transactional_id])
    return orjson.dumps(
        [
            "transaction",
            VERSION,
            entry.transactional_id,
            entry.state,
            entry.producer_id,
            entry.epoch,
            entry.last_epoch,
            entry.previous_producer_id,
            entry.next_producer_id,
            entry.timeout_ms,
            entry.started_ms,
            entry.updated_ms,
            [tuple(each) for each in entry.partitions],
            [*entry.groups],
        ]
    )


def decode(payload: bytes) -> Entry:
    """The entry that the bytes say; `UnreadableEntry` if they say none."""
    try:
        match orjson.loads(payload):
            case ["forgotten", 1, transactional_id]:
                return Forgotten(transactional_id)
            case ["transaction", 1, *fields]:
                return _record(*fields)
    except (ValueError, TypeError) as error:
        raise _unreadable(payload) from error
    raise _unreadable(payload)


def _record(
    transactional_id: str,
    state: str,
    producer_id: int,
    epoch: int,
    last_epoch: int,
    previous_producer_id: int,
    next_producer_id: int,
    timeout_ms: int,
    started_ms: int,
    updated_ms: int,
    partitions: list[tuple[str, int]],
    groups: list[str],
) -> TransactionRecord:
    return TransactionRecord(
        transactional_id=transactional_id,
        state=TransactionState(state),
        producer_id=producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        previous_producer_id=previous_producer_id,
        next_producer_id=next_producer_id,
        timeout_ms=timeout_ms,
        started_ms=started_ms,
        updated_ms=updated_ms,
        partitions=frozenset(TopicPartition(*each) for each in partitions),
        groups=frozenset(groups),
    )


def _unreadable(payload: bytes) -> UnreadableEntry:
    return UnreadableEntry(
        f"the journal of transactions has an entry that cannot be read: {payload[:80]!r}; "
        "use the Headrace version that wrote it"
    )
