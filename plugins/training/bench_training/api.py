"""Public interface for other distributions: training settings, optimizers, and models stacked over seeds."""

from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig
from bench_training.vmapped import Stack, stacked

__all__ = ["Stack", "TrainingConfig", "optimizers", "stacked"]
