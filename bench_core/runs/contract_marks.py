"""Marks in the store which record that a model's code fulfills its contracts, or was trained without testing them."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from bench_core.planning.stages import Stage
from bench_core.storage.store import CHECKED, Store

UNTESTED_SUFFIX = ".untried"  #: suffix of the mark if a model was trained without testing its contracts


def contract_mark(stage: Stage, store: Store) -> Path | None:
    """Return the file that marks a model as fulfilling its contracts; None for stages without training."""
    if not stage.about.trains or stage.is_extracted:
        return None
    model_code = {name: code for name, code in stage.code.items() if name.startswith(("model", "inner"))}
    ingredients = [model_code, stage.settings["model"]["name"], stage.libraries, stage.settings.get("exempt", [])]
    return store.root / CHECKED / hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()


def mark_untested(trainings: Iterable[Stage], store: Store) -> None:
    """Record that models are trained without testing their contracts, because bench-authors is not installed."""
    for mark in filter(None, (contract_mark(stage, store) for stage in trainings)):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.with_suffix(UNTESTED_SUFFIX).touch()


def is_unchecked(training: Stage, store: Store) -> bool:
    """Return whether a model was trained without testing its contracts, and has not passed them since."""
    mark = contract_mark(training, store)
    return mark is not None and not mark.exists() and mark.with_suffix(UNTESTED_SUFFIX).exists()
