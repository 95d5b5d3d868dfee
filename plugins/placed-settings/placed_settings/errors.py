"""The error of this library."""


class SettingsError(Exception):
    """Settings cannot be read or are invalid; the message has file, line, column, finding and remedy."""
