"""What can go wrong in a test of a flow, apart from what it tests."""

from headrace.errors import HeadraceError


class HarnessError(HeadraceError):
    """A harness was used in a way that makes no sense; the message says which would."""


class HarnessClosed(HarnessError):
    """The harness is not open, or no longer."""


class UnknownTopicOrOutput(HarnessError):
    """The flow reads no such topic, or has no such output; the message suggests one."""


class InvalidEvent(HarnessError):
    """An event that cannot be a record of its topic; the message names it."""


class FlowDied(HarnessError):
    """The flow was killed or has failed, and was not started again."""


class StepFailed(HarnessError):
    """A query failed in a step that nobody told it to die in; the message is the cause."""
