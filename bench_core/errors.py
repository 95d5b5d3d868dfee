"""Exceptions whose message is for the user: what is wrong, what was found, what to do.

* BenchError
  * SuiteError     the suite or the command asks for something that cannot be
  * DataError      a file of a corpus is missing or not what it should be
  * PluginError    a plugin breaks the interface that it claims
  * StoreError     an artifact is missing or damaged
  * TrainingError  a training cannot go on, for example because its loss is not a number
"""


class BenchError(Exception):
    """Base of all errors that the command line prints without a traceback."""


class SuiteError(BenchError):
    """The suite or the command asks for something that cannot be."""


class DataError(BenchError):
    """A file of a corpus is missing or not what it should be."""


class PluginError(BenchError):
    """A plugin breaks the interface that it claims."""


class StoreError(BenchError):
    """An artifact is missing or damaged."""


class TrainingError(BenchError):
    """A training cannot go on."""


class Stopped(Exception):
    """Time is up; no failure: what is done is kept, and another run goes on from there."""
