"""The records of a plan that a run contains: every stage, and the settings of each part, by name."""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from bench_core.planning.cache_keys import SCHEME
from bench_core.planning.plan import Plan
from bench_core.runs.provenance import RecordedStage, put, settings_by_part
from bench_core.suites.cells import can_pair, differing_seeds, writes_text
from bench_core.suites.suite import Suite
from input_digests import Dependencies
from placed_settings import as_yaml

PARTS = ("tasks", "models", "decoders", "metrics", "probes")


def planned_stages(
    plan: Plan, results: Mapping[str, str], computed: Mapping[str, str], observed: Mapping[str, Dependencies]
) -> Iterator[RecordedStage]:
    """Yield the records of the stages of a plan.

    By stage key, `results` are digests, `computed` are digests of environment and cost, and `observed` are inputs.
    """
    for key, stage in plan.stages.items():
        digests = results.get(key, ""), computed.get(key, "")
        yield RecordedStage(key, stage.ingredients, SCHEME, *digests, observed.get(key, {}))


def planned_parts(suite: Suite, plan: Plan) -> dict[str, Any]:
    """Return the planned settings of all parts that cells use, by section, name and setting.

    The entry `suite` is the digest of suite.yaml.
    """
    parts: dict[str, Any] = {
        "suite": hashlib.sha256(as_yaml(suite.effective).encode()).hexdigest(),
        "limits": suite.limits.model_dump(mode="json"),
        "seeds": [*suite.seeds],
        "splits": [*suite.splits],
        "limited": {section: _limited_settings(getattr(suite, section)) for section in PARTS if section != "models"},
    }
    for cell, artifacts in plan.of_cell.items():
        for name, key in artifacts.items():
            for place, value in settings_by_part(cell.axes, name, plan.stages[key].ingredients["settings"]):
                if place[0] not in ("cell", "limits", "seeds"):
                    put(parts, place, value)
            if cell.task in plan.settings:
                put(parts, ("tasks", cell.task, "task"), plan.settings[cell.task])
            if access := plan.stages[key].access:
                put(parts, ("models", cell.model, cell.task, "access"), dict(access))
    return parts | _pair_seeds(suite)


def _pair_seeds(suite: Suite) -> dict[str, Any]:
    """Return the seeds of each task, model and decoder; empty if the suite has no text generators."""
    if not any(writes_text(variant.config) for model in suite.models.values() for variant in model.all):
        return {}
    seeds_of_pairs: dict[str, Any] = {}
    for task, (model, entry), (name, decoder) in product(suite.tasks, suite.models.items(), suite.decoders.items()):
        config = entry.at(task).config
        seeds = differing_seeds(config, decoder, suite.seeds) if can_pair(decoder, config) else []
        put(seeds_of_pairs, ("pairs", task, model, name), {str(seed): True for seed in seeds})
    return seeds_of_pairs


def _limited_settings(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that default to limits of the suite, by the name of their part."""
    return {name: dict(config.limits) for name, config in parts.items() if config.limits}
