"""Which stages of an export were computed by code that is not installed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench_core.planning.stage_code import changed_code
from bench_core.runs.provenance import RecordedStage


def lacking_code(stages: Mapping[str, RecordedStage]) -> dict[str, list[str]]:
    """Return the stages whose code has another digest here, or is not installed, each with what of it."""
    settings: dict[str, Mapping[str, Any]] = {}
    found = {}
    for key, stage in stages.items():  # inputs first
        behind = [settings[inner] for _, inner in stage.inputs.values() if inner in settings]
        settings[key] = _together(*behind, _select(stage), stage.settings)
        if names := changed_code(stage.ingredients.get("code") or {}, {}, settings[key]):
            found[key] = names
    return found


def refusal(lacking: Mapping[str, Sequence[str]], stages: int) -> str:
    """Say that stages are not taken, what code they lack, and what to do."""
    names = [name for name, _ in Counter(name for several in lacking.values() for name in several).most_common()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    what = f"{len(lacking):,} of {stages:,} stages were computed by code that is not installed here"
    return f"{what}: {', '.join(names[:3])}{more}; install that version, or take them unverified: --trust"


def _select(stage: RecordedStage) -> Mapping[str, Any]:
    """Return the settings of the metric and decoder by which a training chooses weights."""
    select = (stage.settings.get("training") or {}).get("select") or {}
    return {kind: select[kind] for kind in ("metric", "decoder") if isinstance(select.get(kind), Mapping)}


def _together(*several: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for one in several for name, value in one.items()}
