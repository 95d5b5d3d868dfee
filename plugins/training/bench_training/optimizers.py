"""Optimizers by name for dense and sparse gradients, with settings per weight group."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from bench_core.errors import PluginError, SuiteError
from bench_training.named_classes import class_of, tuples
from bench_training.settings import Optimizer, ParameterGroup, TrainingConfig

#: Optimizer settings with which every row of an embedding changes at every step.
DENSE_SETTINGS = ("weight_decay", "momentum")
Weights: TypeAlias = tuple[list[nn.Parameter], dict[str, Any]]  #: weights, and the settings of their group
SCHEDULED_SETTINGS = ("lr", "momentum", "betas")  #: settings that torch schedules change


def optimizers(
    model: nn.Module, config: TrainingConfig, device: torch.device, which: Optimizer | None = None
) -> list[torch.optim.Optimizer]:
    """Return an optimizer for weights with dense gradients and another for embeddings with sparse gradients.

    The second optimizer leaves rows outside the batch unchanged, including their momentum (lazy Adam). Each parameter
    group stores its peak learning rate as `peak_lr`, and the initial values of scheduled settings as `given`. Raises
    SuiteError if the settings are invalid or need all rows of a sparse embedding.
    """
    default = which or config.optimizer
    modules = [module for module in model.modules() if isinstance(module, nn.Embedding) and module.sparse]
    sparse = {id(module.weight): module.weight for module in modules if module.weight.requires_grad}
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not trained:
        raise PluginError(f"{type(model).__name__} has no parameters to train.")
    built: list[torch.optim.Optimizer] = []
    for chosen, groups in _by_optimizer(trained, config, default):
        if dense := _select(groups, lambda weights: id(weights) not in sparse):
            built.append(_dense_optimizer(chosen, dense, config.lr, device))
        if rows := _select(groups, lambda weights: id(weights) in sparse):
            built.append(_sparse_optimizer(chosen, rows, config.lr))
    for optimizer in built:
        for group in optimizer.param_groups:
            group["given"] = {name: group[name] for name in SCHEDULED_SETTINGS if name in group}
            group["peak_lr"] = group["lr"]
    return built


def check_groups(model: nn.Module, config: TrainingConfig) -> None:
    """Raise SuiteError if a group's pattern matches no weights of the model."""
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    for group in config.groups:
        for pattern in group.match:
            if not any(fnmatchcase(_dotted_name(name), pattern) for name in names):
                examples = ", ".join(_dotted_name(name) for name in names[:8])
                raise SuiteError(f"groups: no weights match {pattern!r}. The model has {examples}, etc.")


def _dotted_name(name: str) -> str:
    """Return the name that weights have in their model, even if they are in a `Stack`."""
    return name.replace("/", ".")


def _by_optimizer(
    trained: Mapping[str, nn.Parameter], config: TrainingConfig, chosen: Optimizer
) -> Iterator[tuple[Optimizer, list[Weights]]]:
    """Yield optimizers with their weight groups; a group's settings override the optimizer's."""
    by_group: dict[int, list[nn.Parameter]] = {}
    for name, parameter in trained.items():
        number = next((n for n, group in enumerate(config.groups) if _matches(_dotted_name(name), group)), -1)
        by_group.setdefault(number, []).append(parameter)
    common, separate = [], []
    for number, weights in sorted(by_group.items()):
        group = config.groups[number] if number >= 0 else ParameterGroup(match=("*",))
        settings = {**group.more, **({} if group.lr is None else {"lr": group.lr, "own_lr": True})}
        if group.optimizer is None:
            common.append((weights, settings))
        else:
            separate.append((group.optimizer, [(weights, settings)]))
    yield from [(chosen, common)] if common else []
    yield from separate


def _matches(name: str, group: ParameterGroup) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in group.match)


def _select(
    groups: Sequence[tuple[list[nn.Parameter], dict[str, Any]]], which: Callable[[nn.Parameter], bool]
) -> list[dict[str, Any]]:
    """Return torch parameter groups, restricted to the weights for which `which` is true."""
    selected = [({"params": [each for each in weights if which(each)]}, settings) for weights, settings in groups]
    return [{**weights, **tuples(settings)} for weights, settings in selected if weights["params"]]


def _dense_optimizer(
    chosen: Optimizer, groups: list[dict[str, Any]], lr: float, device: torch.device
) -> torch.optim.Optimizer:
    cls = class_of("optimizer", chosen.name)
    fused = _accepts(cls, "fused") and device.type in ("cpu", "cuda") and not {"foreach", "fused"} & {*chosen.more}
    settings = {**({"fused": True} if fused else {}), **tuples(chosen.more)}
    try:
        built: torch.optim.Optimizer = cls(groups, lr=lr, **settings)
    except (TypeError, ValueError, RuntimeError, AssertionError) as error:
        raise SuiteError(f"optimizer {chosen.name!r} cannot be built with these settings: {error}") from None
    if not isinstance(built, torch.optim.Optimizer):
        raise SuiteError(f"optimizer {chosen.name!r} is a {type(built).__name__}, not a torch.optim.Optimizer.")
    return built


def _accepts(cls: type, name: str) -> bool:
    """Return whether a constructor has a parameter; does not read annotations, which would become part of keys."""
    code = getattr(cls.__init__, "__code__", None)  # type: ignore[misc]
    return code is not None and name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _sparse_optimizer(chosen: Optimizer, groups: list[dict[str, Any]], lr: float) -> torch.optim.Optimizer:
    """Return the counterpart of the chosen optimizer for sparse gradients."""
    name, settings = chosen.name.lower(), chosen.more
    if name not in ("adam", "adamw", "sgd"):
        raise SuiteError(
            f"the gradients of this model's embeddings are sparse, but {chosen.name!r} needs dense gradients. Use "
            "adam or sgd, or set the model's `sparse: false`."
        )
    for setting in DENSE_SETTINGS:
        if any({**settings, **group}.get(setting) for group in groups):
            raise SuiteError(
                f"`{setting}` changes every row of an embedding at every step, but this model's embeddings have "
                f"sparse gradients. Set `{setting}: 0`, or the model's `sparse: false`."
            )
    more = {key: value for key, value in tuples(settings).items() if key in ("betas", "eps") and name != "sgd"}
    lazy: Any = torch.optim.SGD if name == "sgd" else partial(torch.optim.SparseAdam, **more)
    allowed = ("params", "lr", "own_lr", *more)
    rates = [{key: value for key, value in group.items() if key in allowed} for group in groups]
    built: torch.optim.Optimizer = lazy(rates, lr=lr)
    return built


def gradient_entries(weights: nn.Parameter) -> Tensor:
    """Return the values of a gradient, to be modified in place; a sparse gradient is coalesced."""
    assert weights.grad is not None
    if not weights.grad.is_sparse:
        return weights.grad
    weights.grad = weights.grad.coalesce()
    return weights.grad.values()


def set_peak(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the peak learning rate of all weights, except in groups with a peak rate of their own."""
    for group in optimizer.param_groups:
        group["peak_lr"] = group["given"]["lr"] if group.get("own_lr") else lr


def state_of(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return an optimizer's state and group settings for a checkpoint."""
    settings = [
        {name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups
    ]
    return {"state": optimizer.state_dict()["state"], "settings": settings}


def load_state(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Load the result of `state_of`."""
    optimizer.load_state_dict({"state": state["state"], "param_groups": optimizer.state_dict()["param_groups"]})
    for group, settings in zip(optimizer.param_groups, state["settings"], strict=True):
        group.update(settings)
