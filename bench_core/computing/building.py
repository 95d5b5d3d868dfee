"""Builds parts from settings: on a device, on the meta device, with stored weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.computing.guards import diverged
from bench_core.computing.process_state import unchanged_state
from bench_core.data import Kind
from bench_core.errors import PluginError, StoreError
from bench_core.part_class import part_class
from bench_core.registry import PartKind, configured, part

if TYPE_CHECKING:
    import torch


def built(kind: PartKind, settings: Mapping[str, Any], *more: Any) -> Any:
    """Build a part from its settings as JSON data; raise PluginError if its class is not what its Config declares."""
    config = configured(kind, settings)
    with unchanged_state():
        build = part_class(config)
    with unchanged_state():
        return build(config, *more)


def load_weights(model: Any, path: Path) -> None:
    """Load stored weights into a model; raise StoreError if the file does not contain exactly its weights."""
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    try:
        load_model(model, str(path))
    except (SafetensorError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{path} does not hold the weights of this model: {reason}") from None
    wrong = diverged(model)
    if wrong:
        raise StoreError(f"{path}: {wrong}; weights must be finite. Use other weights, or train again.")


def likelihood_kind(model: Mapping[str, Any], by: str) -> Kind:
    """Return the kind (exact, bound, estimate) of a likelihood of a model."""
    return part("model", model["name"]).config.likelihoods[by]  # type: ignore[attr-defined,no-any-return]


def device_of(settings: Mapping[str, Any]) -> torch.device:
    """Return the device of the settings, and set the threads of torch; raise PluginError if it is missing."""
    import torch

    torch.set_num_threads(settings["threads"])
    if settings["device"] == "cuda" and not torch.cuda.is_available():
        raise PluginError("torch finds no CUDA device here. Set `hardware: {device: cpu}`, or see `bench doctor`.")
    return torch.device(settings["device"])
