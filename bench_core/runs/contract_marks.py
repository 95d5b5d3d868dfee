"""Marks in the store, one for each digest of the code of a model: it keeps its contracts, or none was tried."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from bench_core.planning.stages import Stage
from bench_core.storage.store import CHECKED, Store

UNTRIED = ".untried"  #: ends the name of the mark of a model that was trained without a trial


def contract_mark(stage: Stage, store: Store) -> Path | None:
    """Return the file that says that a model keeps its contracts; None for a stage that trains none."""
    if not stage.about.trains or stage.is_taken:
        return None
    own = {name: code for name, code in stage.code.items() if name.startswith(("model", "inner"))}
    about = [own, stage.settings["model"]["name"], stage.libraries, stage.settings.get("exempt", [])]
    return store.root / CHECKED / hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def note_untried(trainings: Iterable[Stage], store: Store) -> None:
    """Record that models are trained without a trial of their contracts, since bench-authors is not installed."""
    for mark in filter(None, (contract_mark(stage, store) for stage in trainings)):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.with_suffix(UNTRIED).touch()


def is_unchecked(training: Stage, store: Store) -> bool:
    """Return whether a model was trained without a trial of its contracts, and none has succeeded since."""
    mark = contract_mark(training, store)
    return mark is not None and not mark.exists() and mark.with_suffix(UNTRIED).exists()
