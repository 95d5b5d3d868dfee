"""Optimizers: one for dense gradients, one for sparse embeddings."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench_core.errors import PluginError, SuiteError
from bench_core.suites.training import TrainingConfig

OPTIMIZERS: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def optimizers(model: Any, config: TrainingConfig, device: torch.device) -> list[torch.optim.Optimizer]:
    """Return an optimizer for weights with dense gradients, and one for embeddings with sparse gradients.

    The latter leaves rows outside the batch unchanged, including their momentum (lazy Adam). Raises SuiteError if the
    settings need all rows.
    """
    modules = [module for module in model.modules() if isinstance(module, nn.Embedding) and module.sparse]
    sparse = {id(module.weight): module.weight for module in modules if module.weight.requires_grad}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise PluginError(f"{type(model).__name__} has no parameters to train.")
    own: Any = {"momentum": config.momentum} if config.optimizer == "sgd" else {"betas": config.betas}
    whole = [parameter for parameter in trained if id(parameter) not in sparse]
    found: list[torch.optim.Optimizer] = []
    if whole:
        fused = device.type in ("cpu", "cuda")
        kind = OPTIMIZERS[config.optimizer]
        found.append(kind(whole, lr=config.lr, weight_decay=config.weight_decay, fused=fused, **own))
    if sparse:
        for name, value in (("weight_decay", config.weight_decay), ("momentum", own.get("momentum"))):
            if value:
                raise SuiteError(
                    f"`{name}` changes every row of an embedding at every step, and the gradients of this model's "
                    f"are sparse. Set `{name}: 0`, or the model's `sparse: false`."
                )
        adam = partial(torch.optim.SparseAdam, betas=config.betas)
        lazy: Any = torch.optim.SGD if config.optimizer == "sgd" else adam
        found.append(lazy([*sparse.values()], lr=config.lr))
    return found


def gradient_entries(weights: nn.Parameter) -> Tensor:
    """Return the values of a gradient, those of a sparse one coalesced, to be modified in place."""
    assert weights.grad is not None
    if not weights.grad.is_sparse:
        return weights.grad
    weights.grad = weights.grad.coalesce()
    return weights.grad.values()
