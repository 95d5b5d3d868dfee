"""Exceptions whose message is for the user: what is wrong, what was found, what to do."""

from typing import TypeAlias

#: What is wrong, as a text for an error: an edited one changes no key. It may be the empty string.
Fault: TypeAlias = str


class BenchError(Exception):
    """The base class of errors that the command line prints without a traceback."""


class SuiteError(BenchError):
    """The suite or the command asks for something impossible."""


class DataError(BenchError):
    """A data file is missing, or not as published."""


class PluginError(BenchError):
    """A plugin breaks the interface that it claims."""


class StoreError(BenchError):
    """An artifact is missing or damaged."""


class TrainingError(BenchError):
    """Training cannot continue, for example because the loss is NaN."""


class Stopped(Exception):
    """The time limit was reached: not a failure; finished stages are stored, and another run continues from there."""
