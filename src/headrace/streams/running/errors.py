"""What can go wrong while a flow runs, or keeps it from running."""

from headrace.streams.errors import StreamsError


class FlowRefused(StreamsError):
    """A flow was not started, because something stored would not fit it; nothing was changed."""


class CheckpointMismatch(FlowRefused):
    """A checkpoint belongs to something else, or to the flow as it was before an edit."""


class FlowAlreadyRunning(FlowRefused):
    """Another process runs this flow."""


class VersionRefused(FlowRefused):
    """A version of a flow cannot be run, promoted or dropped; the message says why."""


class QueryGivenUp(StreamsError):
    """A query failed for good; the others went on."""
