"""What other plugins may use: metrics of text, METEOR, and programs in Java that answer line by line.

What METEOR needs loads when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bench_metrics.dialogue import Unanswered, ask
from bench_metrics.java import java
from bench_metrics.plugin import MeteorConfig
from bench_metrics.texts import TextMetric, compared

if TYPE_CHECKING:
    from bench_metrics.meteor import Meteor

__all__ = ["Meteor", "MeteorConfig", "TextMetric", "Unanswered", "ask", "compared", "java"]


def __getattr__(name: str) -> object:
    if name != "Meteor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("bench_metrics.meteor"), name)
