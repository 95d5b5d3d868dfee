"""Declaration of files that Python cannot observe parts reading. The name of this module is part of stage keys."""

import os
from contextlib import AbstractContextManager

import process_watch


def reads(*paths: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Declare files that a block reads unobserved by Python, such as in a child process or in compiled code.

    The files at `paths` become inputs of the stage. Child processes, connections and environment variables of the
    block do not: settings in the key, or `paths`, must determine their results.
    """
    return process_watch.reads(*paths)
