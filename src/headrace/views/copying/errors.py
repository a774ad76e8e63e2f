"""What can go wrong with a copy, besides its cluster and its store."""

from headrace.errors import HeadraceError


class CopyError(HeadraceError):
    """A topic cannot be copied."""


class InvalidCopy(CopyError):
    """What was said about a copy makes no sense."""


class RecordRejected(CopyError):
    """A record does not parse, and nobody said where such records go."""


class TopicShrunk(CopyError):
    """A topic ends before what was copied of it: it is another one of the same name."""
