"""The precision of forward passes in training, and loss scaling for fp16."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from bench_core.errors import TrainingError

MIN_SCALE = 2.0**-14  #: minimum scale of fp16 losses: if a gradient is not finite here, scaling cannot help
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """The precision of forward passes: fp32, tf32 (matrix products and cuDNN layers on a GPU), bf16 or fp16.

    In fp16 the loss is scaled, so that gradients do not vanish; an update whose gradient is not finite is skipped,
    and the scale is reduced.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self.dtype = AUTOCAST.get(name)
        self.scaler = torch.amp.GradScaler(device.type) if name == "fp16" else None

    def forward(self) -> AbstractContextManager[Any]:
        """Return a context manager for computing in this precision."""
        return nullcontext() if self.dtype is None else torch.autocast(self.device.type, self.dtype)

    @contextmanager
    def matrix_products(self) -> Iterator[None]:
        """Allow tf32 inside the block if the precision is tf32."""
        if self.name != "tf32":
            yield
            return
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before[0])
            torch.backends.cudnn.allow_tf32 = before[1]

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss, scaled for its backward pass."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def unscale(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Divide gradients by the loss scale."""
        if self.scaler is not None:
            for optimizer in optimizers:
                self.scaler.unscale_(optimizer)

    def step(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Update weights; in fp16, only if the gradient is finite."""
        for optimizer in optimizers:
            if self.scaler is None:
                optimizer.step()
            else:
                self.scaler.step(optimizer)
        if self.scaler is not None:
            self.scaler.update()

    def check(self) -> None:
        """Raise TrainingError if gradients are not finite at any loss scale; waits for the device."""
        if self.scaler is not None and self.scaler.get_scale() < MIN_SCALE:
            raise TrainingError(
                f"gradients are not finite in fp16, even with a loss scale of {self.scaler.get_scale():g}. "
                "Lower `lr`, set `clip`, or train in bf16 or fp32."
            )

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {} if self.scaler is None else dict(self.scaler.state_dict())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state`."""
        if self.scaler is not None:
            self.scaler.load_state_dict(dict(state))
