"""Exceptions with messages for users: what is wrong, what was found, what to do."""

from typing import TypeAlias

#: The text of an error message, possibly empty; editing it does not change cache keys.
Fault: TypeAlias = str


class BenchError(Exception):
    """The base class of errors that the command line prints without a traceback."""


class SuiteError(BenchError):
    """The suite or command is invalid."""


class DataError(BenchError):
    """A data file is missing or differs from the published file."""


class PluginError(BenchError):
    """A plugin violates its interface."""


class StoreError(BenchError):
    """An artifact is missing or damaged."""


class TrainingError(BenchError):
    """Training cannot continue, for example because the loss is NaN."""


class Stopped(Exception):
    """The time limit was reached; not a failure: finished stages are stored, and the next run resumes from them."""
