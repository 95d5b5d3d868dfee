"""Declares what parts read unobserved. Keys of stages contain the name of this module."""

import os
from contextlib import AbstractContextManager

import process_watch


def reads(*paths: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Declare files that a block reads unobserved by Python, such as in a child process or in compiled code.

    The files at `paths` count as inputs of the stage. Child processes, connections and variables of the block do not:
    settings in the key, or `paths`, must determine their results.
    """
    return process_watch.reads(*paths)
