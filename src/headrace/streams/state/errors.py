"""What can go wrong with state that is kept between batches."""

from headrace.streams.errors import InvalidFlow, StreamsError


class StateError(StreamsError):
    """State could not be kept or read; the message says whose, and what to do."""


class InvalidOperator(InvalidFlow):
    """An operator's description or answer that makes no sense; the message says what would."""


class StateMismatch(StateError):
    """What is stored is of another operator, or of this one before an edit it cannot follow."""


class StateTooLarge(StateError):
    """The state of a bucket has outgrown its budget; nothing of the batch was kept."""
