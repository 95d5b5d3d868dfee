"""Resets modules of a model where a phase begins."""

from collections.abc import Sequence

import torch
from torch import nn

from bench_core.errors import SuiteError


def modules_of(model: nn.Module, names: Sequence[str]) -> list[nn.Module]:
    """Return modules of a model by name; raise SuiteError for a name that it does not have."""
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            known = ", ".join(filter(None, modules))
            raise SuiteError(f"phases reset {name!r}, but the model's modules are: {known}.")
    return [modules[name] for name in names]


def reset_modules(model: nn.Module, names: Sequence[str], optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Reset modules of a model by name: their weights by `reset_parameters`, and their state in optimizers."""
    for one in modules_of(model, names):
        for module in one.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
        for parameter in one.parameters():
            for optimizer in optimizers:
                optimizer.state.pop(parameter, None)
