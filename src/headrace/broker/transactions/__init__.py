"""Transactions: atomic writes to several partitions and to group offsets.

No sockets and no wire format here. `state` is what is known of a transactional id, `decisions` what
requests make of it, `entries` and `store` how it survives a crash. `coordinator` takes the
requests, `ending` leads a decided transaction through its markers, `recovery` cleans up after a
power loss, and `participants` is what the coordinator needs from the rest of the broker.
"""

from headrace.broker.transactions.coordinator import TransactionCoordinator
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.participants import OpenTransaction, Participants, Told
from headrace.broker.transactions.settings import TransactionSettings
from headrace.broker.transactions.state import Identity, TransactionRecord, TransactionState
from headrace.broker.transactions.store import TransactionStore

__all__ = [
    "Identity",
    "OpenTransaction",
    "Participants",
    "Told",
    "TransactionCoordinator",
    "TransactionError",
    "TransactionRecord",
    "TransactionSettings",
    "TransactionState",
    "TransactionStore",
]
