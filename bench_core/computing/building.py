"""Builds parts from settings: on a device, on the meta device, with stored weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.computing.guards import diverged
from bench_core.computing.process_state import unchanged_state
from bench_core.data import Kind
from bench_core.errors import PluginError, StoreError
from bench_core.registry import PartKind, configured, part

if TYPE_CHECKING:
    import torch


def built(kind: PartKind, settings: Mapping[str, Any], *more: Any) -> Any:
    """Build a part from its described settings."""
    config = configured(kind, settings)
    with unchanged_state():
        build = config.load()
    with unchanged_state():
        return build(config, *more)


def load_weights(model: Any, path: Path) -> None:
    """Fill a model with stored weights, all of them; raise StoreError if the file does not hold just those."""
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    try:
        load_model(model, str(path))
    except (SafetensorError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{path} does not hold the weights of this model: {reason}") from None
    wrong = diverged(model)
    if wrong:
        raise StoreError(f"{path}: {wrong}; weights are finite numbers. Begin with others, or train anew.")


def likelihood_kind(model: Mapping[str, Any], by: str) -> Kind:
    """Return how one of the likelihoods of a described model relates to log p."""
    likelihoods: Mapping[str, Kind] = part("model", model["name"]).config.likelihoods  # type: ignore[attr-defined]
    return likelihoods[by]


def device_of(settings: Mapping[str, Any]) -> torch.device:
    """Return the device that settings ask for, and give torch its threads; raise PluginError if it is not there."""
    import torch

    torch.set_num_threads(settings["threads"])
    if settings["device"] == "cuda" and not torch.cuda.is_available():
        raise PluginError("torch finds no CUDA device here. Set `hardware: {device: cpu}`, or see `bench doctor`.")
    return torch.device(settings["device"])
