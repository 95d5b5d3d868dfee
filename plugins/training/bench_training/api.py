"""What other distributions may build on: optimizers by the settings of a training, and seeds stacked as one model."""

from __future__ import annotations

from bench_training.optimizers import optimizers
from bench_training.together import Stack, stacked

__all__ = ["Stack", "optimizers", "stacked"]
