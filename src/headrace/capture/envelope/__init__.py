"""What changes look like in topics.

`debezium` is Debezium's envelope and `plain` the row as it is with headers; `columns` and `types`
write rows, `schemas` describes them, `transactions` tells where transactions begin and end, and
`outbox` makes events of the rows of an outbox.
"""

from headrace.capture.envelope.debezium import DebeziumEnvelope
from headrace.capture.envelope.modes import Decimals, Intervals, Modes, Times
from headrace.capture.envelope.outbox import Outbox
from headrace.capture.envelope.plain import PlainEnvelope
from headrace.capture.envelope.records import Record, topic_of
from headrace.capture.envelope.transactions import TransactionMetadata

__all__ = [
    "DebeziumEnvelope",
    "Decimals",
    "Intervals",
    "Modes",
    "Outbox",
    "PlainEnvelope",
    "Record",
    "Times",
    "TransactionMetadata",
    "topic_of",
]
