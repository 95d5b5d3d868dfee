"""Where a plugin raised an error: file, line and function."""

import traceback
from pathlib import Path

from bench_core.registry import installed
from bench_core.whose_code import PACKAGES

OTHERS = (*PACKAGES, "torch")  # packages that only pass on what plugins do


def raised_at(error: BaseException) -> str:
    """Return where an error comes from, such as ` (our_plugin/model.py, line 57, in step)`; "" if that is not known.

    It is the innermost frame of a plugin; else the innermost that is neither the core's nor torch's.
    """
    plugins = {module.__name__.partition(".")[0] for module in installed().manager.get_plugins()}
    frames = [
        (str(frame.f_globals.get("__name__", "")).partition(".")[0], frame.f_code, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    own = [one for one in frames if one[0] not in OTHERS]
    for package, code, line in reversed([one for one in own if one[0] in plugins] or own):
        return f" ({_place(code.co_filename, package)}, line {line}, in {code.co_name})"
    return ""


def _place(path: str, package: str) -> str:
    """Return a path from its package on: reports must not name folders of this machine."""
    parts = Path(path).parts
    start = max((place for place, part in enumerate(parts) if part == package), default=len(parts) - 1)
    return "/".join(parts[start:])
