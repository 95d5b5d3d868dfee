"""What other distributions may build on: settings of a training, optimizers, and seeds stacked as one model."""

from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig
from bench_training.together import Stack, stacked

__all__ = ["Stack", "TrainingConfig", "optimizers", "stacked"]
