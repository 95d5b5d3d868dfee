"""The error of this library."""


class SettingsError(Exception):
    """Settings cannot be read, or are invalid: file, line, column, what was found and what to do."""
