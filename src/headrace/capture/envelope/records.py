"""What is written to a topic, and the names of topics."""

import re
from typing import NamedTuple

from headrace.capture.changes import TableName

Headers = list[tuple[str, bytes]]
"""Names and values."""

_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")


class Record(NamedTuple):
    """One record, before it has a partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None
    everywhere: bool = False
    """Whether every partition gets it: what it says is about all keys."""


def topic_of(prefix: str, name: TableName) -> str:
    """The topic of a table, as Debezium names it; what topics may not have becomes an underscore.

    >>> topic_of("shop", TableName("public", "order lines"))
    'shop.public.order_lines'
    """
    return _ILLEGAL.sub("_", f"{prefix}.{name.schema}.{name.table}")
