"""What can go wrong between a database and the log."""

from collections.abc import Sequence

from headrace.errors import HeadraceError


class CaptureError(HeadraceError):
    """A database could not be captured; the message says what to do about it."""


class InvalidCapture(CaptureError):
    """The description of a capture cannot be right: its URL, its tables, its options."""


class DatabaseUnreachable(CaptureError):
    """The database does not answer, or did not let us in; another try may go better."""


class NotPrepared(CaptureError):
    """The database lacks what a capture needs; the message lists all of it, with the remedies."""

    def __init__(self, where: str, problems: Sequence[str]) -> None:
        listed = "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(f"{where} cannot be captured yet:{listed}")
        self.problems = tuple(problems)


class PositionLost(CaptureError):
    """The database's log no longer has what comes after the stored position.

    A slot that was dropped or moved, a failover that did not bring it along, a purged binlog: only
    a new snapshot closes the gap.
    """


class CaptureBusy(CaptureError):
    """Another process reads the same place in the database's log."""


class GivenUp(CaptureError):
    """What the database was asked for was not waited for, since the capture is to end."""


class CaptureTakenOver(CaptureError):
    """Another process has taken this capture over, and nothing that this one writes counts."""


class LogRetained(CaptureError):
    """The database keeps more of its log for this capture than the limit allows."""


class BrokenStream(CaptureError):
    """The database's log said something that cannot be decoded."""
