"""The precision of forward passes in training, and the loss scaling that fp16 needs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from bench_core.errors import TrainingError

LEAST_SCALE = 2.0**-14  #: of a loss in fp16: a gradient that is not finite even so is not a matter of its scale
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """What a forward pass computes in: fp32, tf32 (products of matrices and layers of cuDNN, on a GPU), bf16 or fp16.

    In fp16 the loss is scaled, so that gradients do not vanish; an update whose gradient is not finite is left out,
    and the scale is reduced.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self.dtype = AUTOCAST.get(name)
        self.scaler = torch.amp.GradScaler(device.type) if name == "fp16" else None

    def forward(self) -> AbstractContextManager[Any]:
        """Compute in this precision inside the block."""
        return nullcontext() if self.dtype is None else torch.autocast(self.device.type, self.dtype)

    @contextmanager
    def products(self) -> Iterator[None]:
        """Allow tf32 inside the block, if that is the precision."""
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

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss to take gradients of."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def unscale(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Make gradients those of the loss itself."""
        if self.scaler is not None:
            for optimizer in optimizers:
                self.scaler.unscale_(optimizer)

    def step(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Update weights; in fp16, unless the gradient is not finite."""
        for optimizer in optimizers:
            if self.scaler is None:
                optimizer.step()
            else:
                self.scaler.step(optimizer)
        if self.scaler is not None:
            self.scaler.update()

    def check(self) -> None:
        """Raise TrainingError if gradients are not finite at any scale; waits for the device."""
        if self.scaler is not None and self.scaler.get_scale() < LEAST_SCALE:
            raise TrainingError(
                f"gradients are not finite in fp16, even of a loss scaled by {self.scaler.get_scale():g}. "
                "Lower `lr`, set `clip`, or train in bf16 or fp32."
            )

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {} if self.scaler is None else dict(self.scaler.state_dict())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        if self.scaler is not None:
            self.scaler.load_state_dict(dict(state))
