"""Places in PostgreSQL's log: numbers to compute with, and the texts that people and SQL see."""

POSTGRES_EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts microseconds from 2000; this is that moment counted from 1970."""


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes it.

    >>> lsn_text(0x16B374D848)
    '16/B374D848'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """As it can be compared.

    >>> lsn_number("16/B374D848") == 0x16B374D848
    True
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)
