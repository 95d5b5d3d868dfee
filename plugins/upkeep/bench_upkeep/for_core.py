"""The interface that the core uses if this distribution is installed: predictions, and the order of stages."""

from bench_upkeep.cost_estimates import CostEstimates
from bench_upkeep.stage_order import ranks

__all__ = ["CostEstimates", "ranks"]
