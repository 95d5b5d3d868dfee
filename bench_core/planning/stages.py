"""Stages, and requests to perform them; both are sent as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Stage:
    """A unit of work: its settings and the keys of its inputs, which together determine its artifact."""

    kind: str  # prepare, together, train, decode, score, measure, probe
    key: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, tuple[str, str]]  # role -> kind and key
    ingredients: Mapping[str, Any]  # all that the key is made of
    label: str  # for display


def stage_from_json(data: Mapping[str, Any]) -> Stage:
    """Return a stage from JSON data."""
    return Stage(**{**data, "inputs": {role: (kind, key) for role, (kind, key) in data["inputs"].items()}})


@dataclass(frozen=True)
class StageRequest:
    """A request to perform a stage, with its limits."""

    stage: Stage  # to perform
    build: bool = False  # only try to build the model that it trains
    until: float | None = None  # seconds since 1970 at which to stop: a training at a checkpoint, others at once
    every: float = 300.0  # seconds between the checkpoints of a training
    again: str | None = None  # a folder to fill, and nothing to store: to be compared with what is stored
    same_code: bool = False  # with `again`: refuse unless code and libraries are those of the ingredients
    rows: int | None = None  # after how many examples to stop, where that is to be quick

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StageRequest:
        """Return a request from JSON data."""
        return cls(**{**data, "stage": stage_from_json(data["stage"])})
