"""The Python interface of bench: `evaluate` objects and `load` runs; names are imported on first use.

`evaluating` evaluates parts passed as objects; `arguments` and `adhoc_parts` convert its arguments, including
functions (`text_functions`), to parts. `loaded` returns a run as rows and outputs, `trained_stage` finds a trained
model of the run, and `trained_model` decodes with the model. `cell_predictions` reads decoded and scored examples.
"""

# mypy: implicit-reexport
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_notebook.cell_predictions import StoredPredictions
    from bench_notebook.evaluating import evaluate
    from bench_notebook.loaded import LoadedRun, load
    from bench_notebook.trained_model import TrainedModel

_HOME = {
    "LoadedRun": "loaded",
    "StoredPredictions": "cell_predictions",
    "TrainedModel": "trained_model",
    "evaluate": "evaluating",
    "load": "loaded",
}

__all__ = ["LoadedRun", "StoredPredictions", "TrainedModel", "evaluate", "load"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
