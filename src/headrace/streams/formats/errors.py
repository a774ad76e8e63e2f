"""What formats refuse before any record is read, and what stops them while they read."""

from headrace.errors import HeadraceError


class FormatError(HeadraceError):
    """The root of what formats raise; records that do not parse are rejected, not raised."""


class UnusableSchema(FormatError):
    """A schema that cannot become the columns of a stream; the message names the field."""


class UnknownFormat(FormatError):
    """A format that does not exist, or an option that it does not have."""


class RegistryFailed(FormatError):
    """The schema registry could not be reached, or refused us; no record is to blame for that."""


class RegistryUnreachable(RegistryFailed):
    """Nobody answers at the registry's addresses, or only that it cannot answer now."""
