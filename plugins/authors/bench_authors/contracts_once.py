"""Tests the contracts of models in a worker before they are first trained, once per digest of their code."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from bench_authors.checker import BUILT, IMPORTED, Trial, checking
from bench_core.planning.path_settings import placed
from bench_core.planning.stage_code import meaning_of
from bench_core.planning.stages import Stage
from bench_core.registry import configured
from bench_core.runs.contract_marks import contract_mark
from bench_core.storage.store import Store
from bench_core.terminal import count_of

MAX_SECONDS = 300.0  #: time limit of a contract
MAX_REPORTED_CONTRACTS = 3  #: broken contracts listed in a reason


def broken_contracts(
    stages: Collection[Stage], known: Mapping[str, Stage], store: Store, data: Path
) -> dict[str, str]:
    """Return the reason for each training stage whose model breaks a contract, by stage key.

    The store marks models that keep their contracts with at least one choice of settings, and models that cannot be
    tested because they are too large or need data that a trial cannot synthesize. `known` has the stages of tasks.
    """
    due: dict[Path, list[Stage]] = {}
    for stage in stages:
        if (mark := contract_mark(stage, store)) is not None and not mark.exists():
            due.setdefault(mark, []).append(stage)
    if not due:
        return {}
    reasons: dict[str, str] = {}
    with checking(data, MAX_SECONDS) as verdict:
        for mark, trainings in due.items():
            faulty = False
            for alike in _by_settings(trainings):  # until settings pass; others may fail with correct code
                task = known[alike[0].inputs["task"][1]].settings["task"]
                model = placed(alike[0].settings["model"], alike[0].places)
                with meaning_of(known[alike[0].inputs["task"][1]]):
                    source = str(configured("task", task).source)
                roots = [root for several in alike[0].roots.values() for root in several]
                result = verdict(Trial("model", [model], source, quick=True, roots=roots))
                skip = {*alike[0].settings.get("exempt", ()), *result.raised, IMPORTED, BUILT}  # reported by training
                if reason := _reason(alike[0], {law: why for law, why in result.broken.items() if law not in skip}):
                    reasons |= dict.fromkeys((stage.key for stage in alike), reason)
                keeps = not reason and not result.raised and not result.broken.keys() & {IMPORTED, BUILT}
                faulty = faulty or not keeps
                if keeps and not result.untried:
                    faulty = False
                    break
            if not faulty:
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch()
    return reasons


def _by_settings(trainings: Sequence[Stage]) -> Collection[list[Stage]]:
    """Group training stages by the settings of their models."""
    groups: dict[str, list[Stage]] = {}
    for training in trainings:
        groups.setdefault(json.dumps(training.settings["model"], sort_keys=True), []).append(training)
    return groups.values()


def _reason(stage: Stage, broken: Mapping[str, str]) -> str:
    """Return the reason not to train a model, or the empty string if it breaks no contract."""
    if not broken:
        return ""
    built = stage.roots[f"model {stage.settings['model']['name']}"][-1].partition(":")[2]
    violations: Sequence[str] = [f"{why} [{law}]" for law, why in broken.items()]
    return f"{built} breaks {count_of(len(broken), 'contract')}: {'; '.join(violations[:MAX_REPORTED_CONTRACTS])}"
