"""Tries the contracts of models before their first training, once for each digest of their code, in a worker."""

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
from bench_core.terminal import counted

SECONDS = 300.0  #: that a contract may take
SHOWN = 3  #: broken contracts in a reason


def broken_contracts(
    stages: Collection[Stage], known: Mapping[str, Stage], store: Store, data: Path
) -> dict[str, str]:
    """Return the trainings, by key, whose model breaks a contract, each with the reason.

    The store records models that keep their contracts with some settings, and those that cannot be tried with any:
    they are too large, or need other data than a trial invents. `known` has the stages of tasks.
    """
    due: dict[Path, list[Stage]] = {}
    for stage in stages:
        if (mark := contract_mark(stage, store)) is not None and not mark.exists():
            due.setdefault(mark, []).append(stage)
    if not due:
        return {}
    found: dict[str, str] = {}
    with checking(data, SECONDS) as verdict:
        for mark, trainings in due.items():
            faulty = False
            for alike in _by_settings(trainings):  # until one keeps them: settings may be wrong, and the code is not
                task = known[alike[0].inputs["task"][1]].settings["task"]
                model = placed(alike[0].settings["model"], alike[0].places)
                with meaning_of(known[alike[0].inputs["task"][1]]):
                    source = str(configured("task", task).source)
                roots = [root for several in alike[0].roots.values() for root in several]
                heard = verdict(Trial("model", [model], source, quick=True, roots=roots))
                told = {*alike[0].settings.get("exempt", ()), *heard.raised, IMPORTED, BUILT}  # or by the training
                if reason := _reason(alike[0], {law: why for law, why in heard.broken.items() if law not in told}):
                    found |= dict.fromkeys((one.key for one in alike), reason)
                keeps = not reason and not heard.raised and not heard.broken.keys() & {IMPORTED, BUILT}
                faulty = faulty or not keeps
                if keeps and not heard.untried:
                    faulty = False
                    break
            if not faulty:
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch()
    return found


def _by_settings(trainings: Sequence[Stage]) -> Collection[list[Stage]]:
    """Return trainings in groups of the same settings of their model."""
    groups: dict[str, list[Stage]] = {}
    for one in trainings:
        groups.setdefault(json.dumps(one.settings["model"], sort_keys=True), []).append(one)
    return groups.values()


def _reason(stage: Stage, broken: Mapping[str, str]) -> str:
    """Return why a model is not trained; the empty string if it breaks no contract."""
    if not broken:
        return ""
    built = stage.roots[f"model {stage.settings['model']['name']}"][-1].partition(":")[2]
    told: Sequence[str] = [f"{why} [{law}]" for law, why in broken.items()]
    return f"{built} breaks {counted(len(broken), 'contract')}: {'; '.join(told[:SHOWN])}"
