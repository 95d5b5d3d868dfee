"""Declaration of files that parts read unobserved by Python. The name of this module is part of stage keys."""

import os
from contextlib import AbstractContextManager

import process_watch


def reads(*paths: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Declare files that a block reads unobserved by Python, such as in a child process or in compiled code.

    The files at `paths` become inputs of the stage. Child processes, connections and environment variables of the
    block do not become inputs: their results must be determined by `paths` or by settings in the key.
    """
    return process_watch.reads(*paths)
