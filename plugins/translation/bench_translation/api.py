"""Public interface for other plugins: parallel files, and tasks on them; numpy and torch are loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING
from warnings import warn

from bench_translation.corpus import CorpusLines, Parallel, parallel, reads
from bench_translation.settings import Both, FilePair, ParallelFiles, Tokenizers

if TYPE_CHECKING:
    from bench_translation.parallel_task import ParallelTask

__all__ = [
    "Both",
    "CorpusLines",
    "FilePair",
    "Parallel",
    "ParallelFiles",
    "ParallelTask",
    "Tokenizers",
    "parallel",
    "reads",
]


#: Former names; removed in the next release.
_RENAMED = {"Files": "ParallelFiles", "Lines": "CorpusLines", "Pair": "FilePair"}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        text = f"`{__name__}.{name}` is now called `{_RENAMED[name]}`; the next release removes the old name."
        warn(text, FutureWarning, stacklevel=2)
        return globals()[_RENAMED[name]]
    if name != "ParallelTask":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bench_translation.parallel_task import ParallelTask

    return ParallelTask
