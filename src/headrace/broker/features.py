"""What the cluster as a whole has agreed on, by Kafka's names for it.

Clients read it from ApiVersions before they use a protocol that every broker of a cluster must
know. Here the cluster is one broker, so that what it can do is what has been agreed on.
"""

from typing import Final

FEATURES: Final = {
    "group.version": 1,
    "transaction.version": 2,
}
"""The levels: 1 of `group.version` stands for consumer groups (KIP-848), 2 of
`transaction.version` for transactions that raise the producer's epoch (KIP-890)."""

FEATURES_EPOCH: Final = 0
"""Rises when the levels change; they never do while a broker runs."""
