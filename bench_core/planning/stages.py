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
    label: str
    code: Mapping[str, str] = field(default_factory=dict)  # kind, part or class -> digest of its code
    libraries: Mapping[str, str] = field(default_factory=dict)  # name -> version
    roots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # kind, part or class -> its roots
    places: Mapping[str, str] = field(default_factory=dict)  # path of a file that it reads -> its mark
    first: str = ""  # for a joint training stage: the key of its first seed's stage
    access: Mapping[str, Any] = field(default_factory=dict)  # settings of its model that are not part of the key

    @property
    def about(self) -> StageKind:
        """Return the description of its kind."""
        return stage_kind(self.kind)

    @property
    def action(self) -> str:
        """Return a word for what the stage does, for display."""
        return call(self.about.action, self) if self.about.action else self.kind

    @property
    def is_extracted(self) -> bool:
        """Return whether its artifact is extracted, at no cost, from the artifact of a joint stage."""
        return any(stage_kind(kind).joint for kind, _ in self.inputs.values())

    @property
    def ingredients(self) -> dict[str, Any]:
        """Return all data that are hashed in the key."""
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

    stage: Stage
    build: bool = False  # only try to build its model
    until: float | None = None  # seconds since 1970; then training stops at a checkpoint, other stages at once
    every: float = 300.0  # seconds between training checkpoints
    again: str | None = None  # a folder for a repetition, to compare with the stored artifact; nothing is stored
    same_code: bool = False  # with `again`: require the recorded code and libraries
    observed: bool = False  # whether there are observers of updates and evaluations
    rows: int | None = None  # the number of examples after which to stop, for a quick look
    calibrate: float | None = None  # seconds for which to time each training phase, instead of training
    cost_key: str = ""  # the key under which to store the cost; "": do not store it
    strict: bool = False  # whether inputs that are not covered by the key are errors

    def to_json(self) -> dict[str, Any]:
        """Return the request as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StageRequest:
        """Return a request from JSON data."""
        return cls(**{**data, "stage": Stage.from_json(data["stage"])})
