"""Failures and interruptions of stages, and where a plugin raised an error."""

import traceback
from pathlib import Path

from bench_core.registry import installed
from bench_core.whose_code import PACKAGES

OTHERS = (*PACKAGES, "torch")  # packages that only call plugins


class StageFailed(Exception):
    """A stage failed or was stopped; the text is for users."""

    def __init__(
        self,
        text: str,
        details: str = "",
        expected: bool = False,
        stored: bool = False,
        stopped: bool = False,
        elsewhere: bool = False,
    ) -> None:
        super().__init__(text)
        self.details = details  # further information, such as a traceback
        self.expected = expected  # the text states what to do, so details are not needed
        self.stored = stored  # an input artifact may be damaged
        self.stopped = stopped  # the time limit was reached, which is not a failure
        self.elsewhere = elsewhere  # the stage was planned with different code or libraries


def time_up() -> StageFailed:
    """Return the error of a stage stopped by the time limit."""
    return StageFailed("the time limit was reached. Run the suite again to continue.", expected=True, stopped=True)


def raised_at(error: BaseException) -> str:
    """Return the origin of an error, such as ` (our_plugin/model.py, line 57, in step)`; empty if unknown.

    The origin is the innermost frame of a plugin, or else the innermost frame outside the core and torch.
    """
    plugins = {module.__name__.partition(".")[0] for module in installed().manager.get_plugins()}
    frames = [
        (str(frame.f_globals.get("__name__", "")).partition(".")[0], frame.f_code, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    foreign = [frame for frame in frames if frame[0] not in OTHERS]
    for package, code, line in reversed([frame for frame in foreign if frame[0] in plugins] or foreign):
        return f" ({_place(code.co_filename, package)}, line {line}, in {code.co_name})"
    return ""


def _place(path: str, package: str) -> str:
    """Return a path starting at its package, because reports must not contain folders of this machine."""
    parts = Path(path).parts
    start = max((place for place, part in enumerate(parts) if part == package), default=len(parts) - 1)
    return "/".join(parts[start:])
