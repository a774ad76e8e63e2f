"""What can go wrong between a flow's description and its last batch."""

from headrace.errors import HeadraceError


class StreamsError(HeadraceError):
    """A flow cannot be described, started or continued; the message says what to do."""


class SparkMissing(StreamsError):
    """PySpark is not installed."""


class JavaMissing(StreamsError):
    """There is no Java that Spark can run on."""


class SparkFailed(StreamsError):
    """Spark did not start, or ended a query; the message is the root cause."""


class InvalidFlow(StreamsError):
    """A description that makes no sense; the message says what would."""


class InvalidName(InvalidFlow):
    """A name that cannot be a directory's, a group's and a topic's."""


class UnknownColumn(InvalidFlow):
    """A column that is not there; the message suggests one that is."""
