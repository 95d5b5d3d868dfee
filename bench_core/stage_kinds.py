"""Kinds of stages: what each executes, when, and what of its artifacts exports carry; imports nothing that computes.

Functions are named as `module:function`, and imported when a stage of the kind is performed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import resolve_name
from typing import Any, Protocol, cast

OUTCOMES, HISTORY = "outcomes.jsonl.gz", "history.jsonl"  #: files of artifacts
WEIGHTS = ("train", "initial")  #: what cells of runs call the stage that gave their model its weights


class Forecast(Protocol):
    """A module that predicts what stages of a kind cost; it imports torch only to calibrate.

    `costs` are the `Costs` of a store, `key` stands for all stages that are equally fast.
    """

    def calibrate(self, context: Any, stage: Any, seconds: float) -> Any:
        """Measure parts of a stage, for about so many seconds each; return a `Cost`."""

    def is_calibrated(self, stage: Any, costs: Any, key: str) -> bool:
        """Return whether there is a calibration."""

    def predicted(self, stage: Any, costs: Any, key: str) -> tuple[float, int, float | None, float | None] | None:
        """Return wall-clock seconds, bytes, CPU seconds, and the load when that was measured; None if unknown."""

    def rough_size(self, settings: Mapping[str, Any]) -> float:
        """Return a number that grows with the cost of a stage, by its settings alone: for an order, no time."""

    def without_length(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of a stage that decide how fast it is, without those that decide how long it lasts."""

    def rows(self, stages: Sequence[Any], predictions: Any, failures: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return what is known of the cost of stages, a row for those that take equally long."""

    def shown(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return rows for a terminal."""

    def remarks(self, rows: Sequence[Mapping[str, Any]], only_calibrated: bool) -> Iterator[str]:
        """Yield what is to be known of the rows."""


@dataclass(frozen=True)
class StageKind:
    """A kind of stage, which the hook `bench_stage_kinds` adds.

    Of a kind that `gives_weights`, all models are built on the meta device before anything is computed, and nothing
    that a stage has loaded is used by the next one. A kind that `trains` does so by updates: the contracts of its
    models are tried, its stages go on from checkpoints, and what they cost can be forecast.
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
    forecast: str = ""  #: the module of its `Forecast`
    fit: str = ""  #: a function of a model without weights and of settings; raises SuiteError if they do not fit
    schema: str = ""  #: the class of `training:`, if it trains; one of `suites.training.TrainingBase`
    check: str = ""  #: a function of an `Entry` and of `report(keys, text)`; `{model}` in a text: who has the problem
    peer: str = ""  #: the module that performs a stage beside this process, on another device
    carrying: Mapping[str, str] = field(default_factory=dict)  #: modules whose code is in no key, and why
    lookups: Sequence[str] = ()  #: `module:name` of what looks up a root of the stage by a computed name

    @property
    def forecaster(self) -> Forecast | None:
        """Return what predicts what its stages cost, if anything does."""
        return cast(Forecast, import_module(self.forecast)) if self.forecast else None

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
