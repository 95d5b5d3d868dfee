"""Losses compiled by `torch.compile`, with a fallback if compilation fails."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from bench_core.data import Batch
from bench_core.model import Loss, Training

LossFunction: TypeAlias = Callable[[Batch, Training], Loss]


class CompiledLoss:
    """The loss of a model, compiled on first use; if compilation fails, the uncompiled loss, with a warning."""

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
        except Exception as error:  # torch.compile and its C++ compiler may raise anything
            torch.set_rng_state(generator)
            return self._fall_back(batch, training, error)

    def _try(self, batch: Batch, training: Training) -> None:
        """Compile the loss and its backward pass by running them once; restore generator and buffers.

        This loss is not reused: a compiled graph may free tensors that a second backward pass would need.
        """
        generator = torch.get_rng_state()
        buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        try:
            torch.autograd.grad(self.loss(batch, training).value, weights, allow_unused=True)
        finally:
            torch.set_rng_state(generator)
            with torch.no_grad():
                for name, buffer in self.model.named_buffers():
                    buffer.copy_(buffers[name])

    def _fall_back(self, batch: Batch, training: Training, error: Exception) -> Loss:
        """Use the uncompiled loss from now on; if that fails as well, its error is raised."""
        self.loss, self.compiled = self.model.loss, False
        loss = self.loss(batch, training)
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        self.warn(f"compile: {type(self.model).__name__} is trained uncompiled because torch.compile failed: {first}")
        return loss
