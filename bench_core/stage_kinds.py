"""Kinds of stages: what each executes, when, and what of its artifacts exports carry; imports nothing that computes.

Functions are named as `module:function`, and imported when a stage of the kind is performed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

OUTCOMES, HISTORY = "outcomes.jsonl.gz", "history.jsonl"  #: files of artifacts
WEIGHTS = ("train", "initial")  #: what cells of runs call the stage that gave their model its weights


@dataclass(frozen=True)
class StageKind:
    """A kind of stage, which the hook `bench_stage_kinds` adds.

    Of a kind that `gives_weights`, all models are built on the meta device before anything is computed, and nothing
    that a stage has loaded is used by the next one. A kind that `trains` does so by updates: the contracts of its
    models are tried, its stages go on from checkpoints, and what they cost is predicted by `calibrate`.
    """

    name: str
    function: str  #: of a `StageContext`, a `Stage` and the folder to fill; returns counts for the costs
    needs_torch: bool = True  #: whether torch is imported before it begins
    first: bool = False  #: whether its stages are performed before models are built
    gives_weights: bool = False
    trains: bool = False
    joint: bool = False  #: whether other stages take their artifacts from it, at no cost
    brief: bool = False  #: whether it takes moments, and is not told of one by one
    gives_number: bool = False  #: whether it gives the score of a metric, for which exported inputs are enough
    files: Sequence[str] = ()  #: of its artifacts that exports carry
    record: str = ""  #: the kind of artifact that exports make of these files, if others are left out
    action: str = ""  #: a function of a `Stage` that returns what it does, for display; by default its kind
    stored: str = ""  #: a function of a `Store` and a `Stage`, called once the artifact is safe
    calibrate: str = ""  #: a function of a `StageContext`, a `Stage` and seconds; returns a `TrainingSpeed`
    fit: str = ""  #: a function of a model without weights and of settings; raises SuiteError if they do not fit
    check: str = ""  #: a function of an `Entry` and of `report(keys, text)`, called with problems of `training:`
    peer: str = ""  #: the module that performs a stage beside this process, on another device
    carrying: Mapping[str, str] = field(default_factory=dict)  #: modules whose code is in no key, and why
    lookups: Sequence[str] = ()  #: `module:name` of what looks up a root of the stage by a computed name

    @property
    def computes(self) -> bool:
        """Return whether results depend on the device, the number of threads and such."""
        return self.needs_torch and not self.brief


_STAGES = "bench_core.computing.stages"
CORE = (
    StageKind(
        "prepare", f"{_STAGES}:prepare", needs_torch=False, first=True, files=("facts.json",), record="prepared"
    ),
    StageKind(
        "initial", f"{_STAGES}:initial", gives_weights=True, files=(HISTORY, "training.json"), record="given",
        action=f"{__name__}:setting_up",
    ),
    StageKind("decode", f"{_STAGES}:decode", files=(OUTCOMES, "samples.json")),
    StageKind("score", f"{_STAGES}:score", files=(OUTCOMES,)),
    StageKind(
        "measure", f"{_STAGES}:measure", needs_torch=False, brief=True, gives_number=True,
        files=("number.json", "parts.jsonl.gz", "draws.npy"),
    ),
    StageKind("probe", f"{_STAGES}:probe", brief=True, files=("finding.json",)),
)  # fmt: skip


def weights_of(artifacts: Mapping[str, str]) -> str:
    """Return the key of the weights of a cell's model, by its artifacts as runs record them; empty if unknown."""
    return next((artifacts[name] for name in WEIGHTS if name in artifacts), "")


def setting_up(stage: object) -> str:
    """Return what a stage does that gives a model its initial weights, for display."""
    return "set up"


def call(function: str, *arguments: Any) -> Any:
    """Return the result of a function that is named as `module:function`."""
    return resolve_name(function)(*arguments)
