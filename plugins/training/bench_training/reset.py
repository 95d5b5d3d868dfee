"""Resets modules of a model at the beginning of a phase."""

from collections.abc import Sequence

import torch
from torch import nn

from bench_core.errors import SuiteError


def modules_of(model: nn.Module, names: Sequence[str]) -> list[nn.Module]:
    """Return modules of a model by name; raise SuiteError for an unknown name."""
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            available = ", ".join(filter(None, modules))
            raise SuiteError(f"phases: cannot reset {name!r}. The model's modules are: {available}.")
    return [modules[name] for name in names]


def reset_modules(model: nn.Module, names: Sequence[str], optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Reset modules by name: their weights with `reset_parameters`, and their optimizer state."""
    for root in modules_of(model, names):
        for module in root.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
        for parameter in root.parameters():
            for optimizer in optimizers:
                optimizer.state.pop(parameter, None)
