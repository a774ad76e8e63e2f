"""What can go wrong with an aggregate."""

from headrace.streams.errors import InvalidFlow, StreamsError


class InvalidAggregate(InvalidFlow):
    """An aggregate that does not exist, or not for these arguments; the message says what does."""


class AggregateOverflow(StreamsError):
    """A total that its type cannot hold; the message says which type can."""
