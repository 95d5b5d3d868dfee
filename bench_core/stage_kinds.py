"""Stage kinds: their functions, order and exported files; importable without the modules that compute.

Functions are given as `module:function` and imported when a stage is performed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import resolve_name
from typing import Any, Protocol, cast

PREDICTIONS, HISTORY = "predictions.jsonl.gz", "history.jsonl"  #: names of files in artifacts
WEIGHTS = ("train", "initial")  #: names in runs of the stages that provide a model's weights


class Forecast(Protocol):
    """A module that predicts costs of stages of a kind; it imports torch only for calibration.

    `costs` are the `Costs` of a store; `key` identifies stages of equal speed.
    """

    def calibrate(self, context: Any, stage: Any, seconds: float) -> Any:
        """Measure parts of a stage for about `seconds` each; return a `Cost`."""

    def is_calibrated(self, stage: Any, costs: Any, key: str) -> bool:
        """Return whether `costs` contain a calibration."""

    def predicted(self, stage: Any, costs: Any, key: str) -> tuple[float, int, float | None, float | None] | None:
        """Return wall-clock seconds, bytes, CPU seconds, and the load during measurement; None if unknown."""

    def rough_size(self, settings: Mapping[str, Any]) -> float:
        """Return a number that grows with the cost of a stage with these settings; for sorting, not a time."""

    def without_length(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of a stage except for its length, which does not affect its speed."""

    def rows(self, stages: Sequence[Any], estimates: Any, failures: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the known costs of stages, with one row for stages of equal cost."""

    def table(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows to print on a terminal."""

    def remarks(self, rows: Sequence[Mapping[str, Any]], only_calibrated: bool) -> Iterator[str]:
        """Yield remarks on the rows."""


@dataclass(frozen=True)
class StageKind:
    """A kind of stage, added by the hook `bench_stage_kinds`.

    If it `gives_weights`, all models are built on the meta device before any computation, and loaded objects are
    dropped after each stage. If it `trains`, contracts of its models are tested, stages resume from checkpoints, and
    costs can be predicted.
    """

    name: str
    function: str  #: takes a `StageContext`, a `Stage` and the folder to fill; returns counts for the costs
    needs_torch: bool = True  #: whether torch is imported before it starts
    first: bool = False  #: whether its stages are performed before models are built
    gives_weights: bool = False
    trains: bool = False
    joint: bool = False  #: whether other stages take their artifacts from its artifact, at no cost
    brief: bool = False  #: whether it is too short to report its stages individually
    gives_number: bool = False  #: whether it computes a metric's score, for which exported inputs suffice
    files: Sequence[str] = ()  #: names of exported files of its artifacts
    record: str = ""  #: artifact kind in exports, if exports contain only some of the files
    action: str = ""  #: takes a `Stage`; returns a verb for display, by default the kind's name
    stored: str = ""  #: takes a `Store` and a `Stage`; called after the artifact is stored
    forecast: str = ""  #: module of its `Forecast`
    fit: str = ""  #: takes a model (without weights) and settings; raises SuiteError if they do not match
    schema: str = ""  #: class of `training:`, if it trains; a subclass of `suites.training.TrainingBase`
    check: str = ""  #: takes an `Entry` and `report(keys, text)`; `{model}` in a text is replaced by model names
    peer: str = ""  #: module that performs a stage in further processes, on other devices
    carrying: Mapping[str, str] = field(default_factory=dict)  #: modules whose code is excluded from keys -> reasons
    lookups: Sequence[str] = ()  #: `module:name` of functions that look up a root of the stage by a computed name

    @property
    def forecaster(self) -> Forecast | None:
        """Return the module that predicts the costs of its stages; None if it has none."""
        return cast(Forecast, import_module(self.forecast)) if self.forecast else None

    @property
    def computes(self) -> bool:
        """Return whether results may depend on hardware settings, such as the device and the number of threads."""
        return self.needs_torch and not self.brief


_STAGES = "bench_core.computing.stages"
CORE = (
    StageKind(
        "prepare", f"{_STAGES}:prepare", needs_torch=False, first=True, files=("task_info.json",), record="prepared"
    ),
    StageKind(
        "initial", f"{_STAGES}:initial", gives_weights=True, files=(HISTORY, "training.json"), record="given",
        action=f"{__name__}:setting_up",
    ),
    StageKind("decode", f"{_STAGES}:decode", files=(PREDICTIONS, "samples.json")),
    StageKind("score", f"{_STAGES}:score", files=(PREDICTIONS,)),
    StageKind(
        "measure", f"{_STAGES}:measure", needs_torch=False, brief=True, gives_number=True,
        files=("number.json", "parts.jsonl.gz", "draws.npy"),
    ),
    StageKind("probe", f"{_STAGES}:probe", brief=True, files=("finding.json",)),
)  # fmt: skip


def weights_of(artifacts: Mapping[str, str]) -> str:
    """Return the key of a model's weights, given the artifacts of its cell in a run; empty if unknown."""
    return next((artifacts[name] for name in WEIGHTS if name in artifacts), "")


def setting_up(stage: object) -> str:
    """Return the action of stages that initialize a model, for display."""
    return "set up"


def call(function: str, *arguments: Any) -> Any:
    """Call a function given as `module:function` and return its result."""
    return resolve_name(function)(*arguments)
