"""The error of this library."""


class SettingsError(Exception):
    """Settings cannot be read or are invalid; the message gives the file, line, column, finding and remedy."""
