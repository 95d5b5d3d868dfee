"""What a run records of its plan: every stage, and the settings of each part by its name."""

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
    """Yield the stages of a plan.

    By key: digests of their `results` and of where they were `computed`, and inputs that were `observed`.
    """
    for key, stage in plan.stages.items():
        digests = results.get(key, ""), computed.get(key, "")
        yield RecordedStage(key, stage.ingredients, SCHEME, *digests, observed.get(key, {}))


def planned_parts(suite: Suite, plan: Plan) -> dict[str, Any]:
    """Return the settings of all parts as planned, by section, name and setting; what no cell uses is left out.

    `suite` is the digest of suite.yaml.
    """
    found: dict[str, Any] = {
        "suite": hashlib.sha256(as_yaml(suite.effective).encode()).hexdigest(),
        "limits": suite.limits.model_dump(mode="json"),
        "seeds": [*suite.seeds],
        "splits": [*suite.splits],
        "limited": {section: _limited(getattr(suite, section)) for section in PARTS if section != "models"},
    }
    for cell, artifacts in plan.of_cell.items():
        for name, key in artifacts.items():
            for place, value in settings_by_part(cell.axes, name, plan.stages[key].ingredients["settings"]):
                if place[0] not in ("cell", "limits", "seeds"):
                    put(found, place, value)
            if cell.task in plan.settings:
                put(found, ("tasks", cell.task, "task"), plan.settings[cell.task])
            if access := plan.stages[key].access:
                put(found, ("models", cell.model, cell.task, "access"), dict(access))
    return found | _pairs(suite)


def _pairs(suite: Suite) -> dict[str, Any]:
    """Return the seeds of each task, model and decoder, in a suite where not every pair has all seeds."""
    if not any(writes_text(one.config) for model in suite.models.values() for one in model.all):
        return {}
    found: dict[str, Any] = {}
    for task, (model, entry), (decoder, by) in product(suite.tasks, suite.models.items(), suite.decoders.items()):
        config = entry.at(task).config
        seeds = differing_seeds(config, by, suite.seeds) if can_pair(by, config) else []
        put(found, ("pairs", task, model, decoder), {str(seed): True for seed in seeds})
    return found


def _limited(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return which settings a part takes from the limits of a suite where it says nothing, by name."""
    return {name: dict(config.limits) for name, config in parts.items() if config.limits}
