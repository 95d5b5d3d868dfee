"""Puts a model in evaluation mode for a block."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off inside the block, and restore torch's generator."""
    was, state = model.training, torch.get_rng_state()
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was)
        torch.set_rng_state(state)
