"""Stages, and requests to perform them; both are sent as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bench_core.registry import stage_kind
from bench_core.stage_kinds import StageKind, call


@dataclass(frozen=True, slots=True)
class Stage:
    """A unit of work: its settings and the keys of its inputs, which together determine its artifact."""

    kind: str  # the name of a `StageKind`
    key: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, tuple[str, str]]  # role -> kind and key
    label: str  # for display
    code: Mapping[str, str] = field(default_factory=dict)  # what takes part -> the digest of its code
    libraries: Mapping[str, str] = field(default_factory=dict)  # name -> version
    roots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what takes part -> where its code begins
    places: Mapping[str, str] = field(
        default_factory=dict
    )  # path of a file that it reads -> what settings have for it
    first: str = ""  # of a joint training: the key of a training that is taken from it
    access: Mapping[str, Any] = field(default_factory=dict)  # settings of its model that are in no key

    @property
    def about(self) -> StageKind:
        """Return what is known of all stages of its kind."""
        return stage_kind(self.kind)

    @property
    def action(self) -> str:
        """Return what it does, for display."""
        return call(self.about.action, self) if self.about.action else self.kind

    @property
    def is_taken(self) -> bool:
        """Return whether its artifact is only taken out of that of a joint stage, which costs nothing."""
        return any(stage_kind(kind).joint for kind, _ in self.inputs.values())

    @property
    def ingredients(self) -> dict[str, Any]:
        """Return all that the key is made of."""
        return {
            "kind": self.kind,
            "settings": self.settings,
            "inputs": self.inputs,
            "code": self.code,
            "libraries": self.libraries,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Stage:
        """Return a stage from JSON data."""
        inputs = {role: (kind, key) for role, (kind, key) in data["inputs"].items()}
        roots = {name: tuple(roots) for name, roots in data["roots"].items()}
        return cls(**{**data, "inputs": inputs, "roots": roots})


@dataclass(frozen=True)
class StageRequest:
    """A request to perform a stage, with its limits."""

    stage: Stage  # to perform
    build: bool = False  # only try to build the model that it trains
    until: float | None = None  # seconds since 1970 at which to stop: a training at a checkpoint, others at once
    every: float = 300.0  # seconds between the checkpoints of a training
    again: str | None = None  # a folder to fill, and nothing to store: to be compared with what is stored
    same_code: bool = False  # with `again`: refuse unless code and libraries are those of the ingredients
    observed: bool = False  # whether somebody hears of updates and evaluations
    rows: int | None = None  # after how many examples to stop, where that is to be quick
    calibrate: float | None = None  # seconds for which each phase of the training is timed, instead of trained
    cost_key: str = ""  # under which the cost is kept, if at all
    strict: bool = False  # whether inputs that the key does not cover are an error

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StageRequest:
        """Return a request from JSON data."""
        return cls(**{**data, "stage": Stage.from_json(data["stage"])})
