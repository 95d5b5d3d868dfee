"""The marks of models that keep their contracts, in the store: one for each digest of their code."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from bench_core.optional import AUTHORS, is_installed
from bench_core.planning.stages import Stage
from bench_core.storage.store import CHECKED, Store


def contract_mark(stage: Stage, store: Store) -> Path | None:
    """Return the file that says that a model keeps its contracts; None for a stage that trains none."""
    training = stage.settings.get("training", {})
    if "model" not in stage.settings or training.get("mode") == "evaluate" or training.get("updates") == 0:
        return None
    if stage.is_taken:
        return None
    own = {name: code for name, code in stage.code.items() if name.startswith(("model", "inner"))}
    about = [own, stage.settings["model"]["name"], stage.libraries, stage.settings.get("exempt", [])]
    return store.root / CHECKED / hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def is_unchecked(stage: Stage, store: Store) -> bool:
    """Return whether the contracts of a trained model were not tried because bench-authors is not installed."""
    mark = contract_mark(stage, store)
    return mark is not None and not mark.exists() and not is_installed(AUTHORS)
