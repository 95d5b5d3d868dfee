"""Interface for the core, if this distribution is installed: predictions, and the order of stages."""

from bench_upkeep.predictions import Predictions
from bench_upkeep.stage_order import ranks

__all__ = ["Predictions", "ranks"]
