"""Optimizers by name, for dense gradients and for sparse ones, with settings by groups of weights."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from bench_core.errors import PluginError, SuiteError
from bench_training.named_classes import class_of, tuples
from bench_training.settings import Group, Optimizer, TrainingConfig

#: What changes every row of an embedding at every step, by optimizer settings.
EVERY_ROW = ("weight_decay", "momentum")
Weights: TypeAlias = tuple[list[nn.Parameter], dict[str, Any]]  #: with the settings in which they differ
CHANGED = ("lr", "momentum", "betas")  #: settings that schedules of torch change


def optimizers(
    model: nn.Module, config: TrainingConfig, device: torch.device, which: Optimizer | None = None
) -> list[torch.optim.Optimizer]:
    """Return an optimizer for weights with dense gradients, and one for embeddings with sparse gradients.

    The latter leaves rows outside the batch unchanged, including their momentum (lazy Adam). Each group has its peak
    learning rate as `peak_lr`, and what schedules may change, as it is before that, as `given`. Raises SuiteError if
    the settings need all rows, or are invalid.
    """
    chosen = which or config.optimizer
    modules = [module for module in model.modules() if isinstance(module, nn.Embedding) and module.sparse]
    sparse = {id(module.weight): module.weight for module in modules if module.weight.requires_grad}
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not trained:
        raise PluginError(f"{type(model).__name__} has no parameters to train.")
    found: list[torch.optim.Optimizer] = []
    for one, groups in _by_optimizer(trained, config, chosen):
        if whole := _of(groups, lambda weights: id(weights) not in sparse):
            found.append(_dense(one, whole, config.lr, device))
        if own := _of(groups, lambda weights: id(weights) in sparse):
            found.append(_lazy(one, own, config.lr))
    for optimizer in found:
        for group in optimizer.param_groups:
            group["given"] = {name: group[name] for name in CHANGED if name in group}
            group["peak_lr"] = group["lr"]
    return found


def check_groups(model: nn.Module, config: TrainingConfig) -> None:
    """Raise SuiteError for patterns that match no weights of a model."""
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    for group in config.groups:
        for pattern in group.match:
            if not any(fnmatchcase(_plainly(name), pattern) for name in names):
                some = ", ".join(_plainly(name) for name in names[:8])
                raise SuiteError(f"groups: no weights match {pattern!r}. The model has {some} and so on.")


def _plainly(name: str) -> str:
    """Return the name of weights in their model, also of those in a stack of copies."""
    return name.replace("/", ".")


def _by_optimizer(
    trained: Mapping[str, nn.Parameter], config: TrainingConfig, chosen: Optimizer
) -> Iterator[tuple[Optimizer, list[Weights]]]:
    """Yield optimizers with their groups of weights, and the settings in which these differ from the optimizer's."""
    by_group: dict[int, list[nn.Parameter]] = {}
    for name, parameter in trained.items():
        number = next((n for n, one in enumerate(config.groups) if _matches(_plainly(name), one)), -1)
        by_group.setdefault(number, []).append(parameter)
    common, apart = [], []
    for number, weights in sorted(by_group.items()):
        group = config.groups[number] if number >= 0 else Group(match=("*",))
        settings = {**group.more, **({} if group.lr is None else {"lr": group.lr, "own_lr": True})}
        if group.optimizer is None:
            common.append((weights, settings))
        else:
            apart.append((group.optimizer, [(weights, settings)]))
    yield from [(chosen, common)] if common else []
    yield from apart


def _matches(name: str, group: Group) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in group.match)


def _of(
    groups: Sequence[tuple[list[nn.Parameter], dict[str, Any]]], which: Callable[[nn.Parameter], bool]
) -> list[dict[str, Any]]:
    """Return groups for torch, with the weights that `which` accepts."""
    found = [({"params": [one for one in weights if which(one)]}, own) for weights, own in groups]
    return [{**weights, **tuples(own)} for weights, own in found if weights["params"]]


def _dense(chosen: Optimizer, groups: list[dict[str, Any]], lr: float, device: torch.device) -> torch.optim.Optimizer:
    found = class_of("optimizer", chosen.name)
    fused = _accepts(found, "fused") and device.type in ("cpu", "cuda")
    given = {
        **({"fused": True} if fused and not {"foreach", "fused"} & {*chosen.more} else {}),
        **tuples(chosen.more),
    }
    try:
        built: torch.optim.Optimizer = found(groups, lr=lr, **given)
    except (TypeError, ValueError, RuntimeError, AssertionError) as error:
        raise SuiteError(f"optimizer {chosen.name!r} cannot be built with these settings: {error}") from None
    if not isinstance(built, torch.optim.Optimizer):
        raise SuiteError(f"optimizer {chosen.name!r} is a {type(built).__name__}, not an Optimizer of torch.")
    return built


def _accepts(found: type, name: str) -> bool:
    """Return whether a class has an argument; by its code, since who reads annotations has them in their key."""
    code = getattr(found.__init__, "__code__", None)  # type: ignore[misc]
    return code is not None and name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _lazy(chosen: Optimizer, groups: list[dict[str, Any]], lr: float) -> torch.optim.Optimizer:
    """Return the optimizer of sparse gradients that goes with the chosen one."""
    name, settings = chosen.name.lower(), chosen.more
    if name not in ("adam", "adamw", "sgd"):
        raise SuiteError(
            f"the gradients of this model's embeddings are sparse, and {chosen.name!r} needs whole ones. Use adam or "
            "sgd, or set the model's `sparse: false`."
        )
    for setting in EVERY_ROW:
        if any({**settings, **group}.get(setting) for group in groups):
            raise SuiteError(
                f"`{setting}` changes every row of an embedding at every step, and the gradients of this model's "
                f"are sparse. Set `{setting}: 0`, or the model's `sparse: false`."
            )
    own = {key: value for key, value in tuples(settings).items() if key in ("betas", "eps") and name != "sgd"}
    lazy: Any = torch.optim.SGD if name == "sgd" else partial(torch.optim.SparseAdam, **own)
    kept = ("params", "lr", "own_lr", *own)
    rates = [{key: value for key, value in group.items() if key in kept} for group in groups]
    built: torch.optim.Optimizer = lazy(rates, lr=lr)
    return built


def gradient_entries(weights: nn.Parameter) -> Tensor:
    """Return the values of a gradient, those of a sparse one coalesced, to be modified in place."""
    assert weights.grad is not None
    if not weights.grad.is_sparse:
        return weights.grad
    weights.grad = weights.grad.coalesce()
    return weights.grad.values()


def set_peak(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the peak learning rate of all weights but those of groups with their own."""
    for group in optimizer.param_groups:
        group["peak_lr"] = group["given"]["lr"] if group.get("own_lr") else lr


def state_of(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return what a checkpoint keeps of an optimizer: its state, and the settings that schedules change."""
    settings = [{name: one for name, one in group.items() if name != "params"} for group in optimizer.param_groups]
    return {"state": optimizer.state_dict()["state"], "settings": settings}


def load_state(optimizer: torch.optim.Optimizer, kept: Mapping[str, Any]) -> None:
    """Inverse of `state_of`."""
    optimizer.load_state_dict({"state": kept["state"], "param_groups": optimizer.state_dict()["param_groups"]})
    for group, settings in zip(optimizer.param_groups, kept["settings"], strict=True):
        group.update(settings)
