"""What can be wrong with the settings somebody wrote down."""

from headrace.errors import HeadraceError


class SettingsError(HeadraceError):
    """The settings cannot be used; the message names the place they came from."""


class SettingsFileError(SettingsError):
    """The settings file is missing, unreadable or not TOML."""


class UnknownSetting(SettingsError):
    """A section, key or variable that means nothing; the message suggests one that does."""


class InvalidSetting(SettingsError):
    """A value of the wrong type or out of its range."""
