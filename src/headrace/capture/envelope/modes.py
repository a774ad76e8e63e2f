"""How a capture wants its records to look."""

from dataclasses import dataclass
from enum import StrEnum


class Decimals(StrEnum):
    """How decimals are written."""

    PRECISE = "precise"
    """As Debezium does by default: their digits as base64."""

    STRING = "string"
    DOUBLE = "double"


class Times(StrEnum):
    """How dates and times are written."""

    ADAPTIVE = "adaptive"
    """As Debezium does by default: numbers as fine as the column, moments as text in UTC."""

    ISO = "iso"
    """As text that people read."""


class Intervals(StrEnum):
    """How intervals are written."""

    NUMERIC = "numeric"
    """As Debezium does by default: microseconds, with months of an average length."""

    STRING = "string"
    """As ISO 8601 has it, without a loss."""


@dataclass(frozen=True, slots=True)
class Modes:
    """How values are written."""

    decimals: Decimals = Decimals.PRECISE
    times: Times = Times.ADAPTIVE
    intervals: Intervals = Intervals.NUMERIC
