"""What can be wrong with record batches."""

from headrace.errors import HeadraceError


class RecordError(HeadraceError):
    """Record batches could not be read or written."""


class MalformedBatch(RecordError):
    """Bytes that should hold a record batch do not.

    `position` is where the batch begins in the buffer; `base_offset` is the offset its header
    claims, when there is enough of a header to tell.
    """

    def __init__(self, problem: str, position: int, base_offset: int | None = None) -> None:
        super().__init__(problem, position, base_offset)
        self.problem = problem
        self.position = position
        self.base_offset = base_offset

    def __str__(self) -> str:
        """Name the batch, then the problem."""
        claimed = "" if self.base_offset is None else f" with base offset {self.base_offset}"
        return f"record batch at byte {self.position}{claimed}: {self.problem}"


class TruncatedBatch(MalformedBatch):
    """The buffer ends before the batch does; read on from `position` with more bytes."""


class UnsupportedMagic(MalformedBatch):
    """The batch has a message format other than v2; use a client of Kafka 0.11 or newer."""


class CorruptBatch(MalformedBatch):
    """The checksum does not match: the bytes changed after the producer wrote them."""


class InvalidBatch(MalformedBatch):
    """The checksum may well match, but the batch contradicts itself: its producer is at fault."""


class InvalidRecords(RecordError):
    """Records that no batch can hold, or a table that does not hold records."""


class UnsupportedCodec(RecordError):
    """A compression codec that the v2 format does not define."""


class DecompressionFailed(RecordError):
    """Compressed bytes are not what their codec says they are."""


class DecompressionLimit(RecordError):
    """Compressed bytes would grow beyond what the caller allows; raise the limit if they may."""
