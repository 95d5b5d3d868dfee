"""Compiled losses: `torch.compile`, and what happens where it cannot."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from bench_core.data import Batch
from bench_core.model import Loss, Training

LossFunction: TypeAlias = Callable[[Batch, Training], Loss]


class CompiledLoss:
    """The loss of a model, compiled at its first use; where that fails, the loss as it is, with a warning."""

    def __init__(self, model: Any, warn: Callable[[str], None]) -> None:
        self.model, self.warn = model, warn
        self.loss: LossFunction = model.compiled_loss()
        self.compiled, self.tried = True, False

    def __call__(self, batch: Batch, training: Training) -> Loss:
        if not self.compiled:
            return self.loss(batch, training)
        generator = torch.get_rng_state()
        try:
            if not self.tried:
                self._try(batch, training)
                self.tried = True
            return self.loss(batch, training)
        except Exception as error:  # whatever the compiler, or the C++ compiler behind it, raises
            torch.set_rng_state(generator)
            return self._plain(batch, training, error)

    def _try(self, batch: Batch, training: Training) -> None:
        """Compile the loss and its backward pass by using them once; generator and buffers stay as they are.

        The gradient is of a loss of its own: a compiled graph may free what a second backward pass would need.
        """
        generator = torch.get_rng_state()
        buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        weights = [one for one in self.model.parameters() if one.requires_grad]
        try:
            torch.autograd.grad(self.loss(batch, training).value, weights, allow_unused=True)
        finally:
            torch.set_rng_state(generator)
            with torch.no_grad():
                for name, buffer in self.model.named_buffers():
                    buffer.copy_(buffers[name])

    def _plain(self, batch: Batch, training: Training, error: Exception) -> Loss:
        """Give up compiling; an error of the loss itself is raised here."""
        self.loss, self.compiled = self.model.loss, False
        found = self.loss(batch, training)
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        self.warn(f"compile: {type(self.model).__name__} is trained without it, as torch.compile failed: {first}")
        return found
