"""Public interface: text metrics, sacrebleu metrics, METEOR, Java processes.

METEOR and sacrebleu are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bench_metrics.java import java
from bench_metrics.line_process import Unanswered, ask
from bench_metrics.plugin import MeteorConfig
from bench_metrics.texts import TextMetric, blocks, compared

if TYPE_CHECKING:
    from bench_metrics.meteor import Meteor
    from bench_metrics.sacre import Sacrebleu

_LAZY = {"Meteor": "meteor", "Sacrebleu": "sacre"}

__all__ = [
    "Meteor",
    "MeteorConfig",
    "Sacrebleu",
    "TextMetric",
    "Unanswered",
    "ask",
    "blocks",
    "compared",
    "java",
]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"bench_metrics.{_LAZY[name]}"), name)
