"""The interface that the core uses if this distribution is installed: predictions, and the order of stages."""

from bench_upkeep.cost_estimates import CostEstimates, ranks

__all__ = ["CostEstimates", "ranks"]
