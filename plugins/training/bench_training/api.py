"""What other distributions may build on: optimizers by the settings of a training, and models of several seeds as one."""

from __future__ import annotations

from bench_training.optimizers import optimizers
from bench_training.together import Stack, stacked

__all__ = ["Stack", "optimizers", "stacked"]
