"""What can go wrong with a store."""

from headrace.errors import HeadraceError


class StoreError(HeadraceError):
    """A store could not be written, or must not be."""


class InvalidStore(StoreError):
    """What was said about a store makes no sense, or something that it needs is not installed."""


class StoreUnreachable(StoreError):
    """Nobody answers, or not now; another try may find the store well."""


class StoreRefused(StoreError):
    """The store refuses what another try would not change: a permission, a setting, a table."""


class ColumnsRefused(StoreRefused):
    """A table is there, but cannot take the columns that are to be written."""


class RowRefused(StoreError):
    """The store refuses a row, and nobody said where refused rows go."""


class ClaimLost(StoreError):
    """Somebody else has taken over; nothing was written."""

    def __init__(self, writer: str, place: str) -> None:
        super().__init__(
            f"Another run writes {place} of {writer} by now, so this one has written nothing. Let "
            "one of the two end."
        )


class PositionsLost(StoreError):
    """The store has lost what it had acknowledged."""
