"""What can go wrong between topics and the rows that Spark gets of them."""

from headrace.errors import HeadraceError


class SourceError(HeadraceError):
    """The source cannot read what it was asked to."""


class InvalidOption(SourceError):
    """An option of the source that is unknown, missing or makes no sense."""


class InvalidOffsets(SourceError):
    """Offsets from a checkpoint that this version cannot read."""


class TopicGone(SourceError):
    """A topic that was being read is not there any more."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"The topic {topic}, which this query has been reading, was deleted. Create it again, "
            'or set on_gap to "skip" to go on without it.'
        )


class TopicReplaced(SourceError):
    """A topic was deleted and created again: its offsets mean other records now."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"The topic {topic} is not the one that this query has been reading: it was deleted "
            'and created again. Set on_gap to "skip" to read the new one from its beginning, or '
            "start the query with a new checkpoint."
        )


class PartitionShrunk(SourceError):
    """A partition ends before what was already read from it."""

    def __init__(self, partition: object, read: int, end: int) -> None:
        super().__init__(
            f"{partition} ends at offset {end}, but this query has read it up to {read}: the "
            'cluster lost records. Set on_gap to "skip" to go on with what comes next.'
        )


class UnreadableRecords(SourceError):
    """Records that their format cannot make rows of."""

    def __init__(self, partition: object, offset: int, reason: str, count: int) -> None:
        others = f" (and {count - 1} more near it)" if count > 1 else ""
        super().__init__(
            f"The record at offset {offset} of {partition} does not parse{others}: {reason}. Set "
            'on_error to "skip" to leave such records out, or give the stream dead_letters.'
        )
