"""Evaluation mode of models."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Disable dropout and gradients inside the block, and restore torch's generator after it."""
    was, state = model.training, torch.get_rng_state()
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was)
        torch.set_rng_state(state)
