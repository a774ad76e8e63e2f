"""Consumed records without a cluster."""

from dataclasses import dataclass, field


@dataclass
class FakeMessage:
    """What the commands use of a confluent-kafka Message."""

    the_value: bytes | None = None
    the_key: bytes | None = None
    the_headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    milliseconds: int = 1_700_000_000_123

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 41

    def timestamp(self) -> tuple[int, int]:
        return 1, self.milliseconds

    def key(self) -> bytes | None:
        return self.the_key

    def value(self) -> bytes | None:
        return self.the_value

    def headers(self) -> list[tuple[str, bytes | None]]:
        return self.the_headers
