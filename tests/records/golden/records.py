"""The records that every client was asked to write into the golden batches."""

from headrace.records import Record

BEGAN = 1_700_000_000_000

EDGES = (
    Record(
        b"order-1",
        b'{"total": 12.5}',
        BEGAN,
        (("trace", b"\x00\xff"), ("empty", b""), ("absent", None)),
    ),
    Record(None, b"no key", BEGAN + 5),
    Record(b"order-1", None, BEGAN - 3),
    Record(b"", b"", BEGAN + 10),
)
"""Null and empty keys, values and headers, and time that runs backwards."""

BULK = tuple(
    Record(f"user-{n}".encode(), f"page view {n % 7} ".encode() * 100, BEGAN + n) for n in range(80)
)
"""Enough for several blocks or chunks of every codec that has any."""


def expected(codec: str) -> tuple[Record, ...]:
    """What the batches of that codec hold; the uncompressed ones are spared the bulk."""
    return EDGES if codec == "none" else EDGES + BULK
