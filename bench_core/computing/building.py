"""Building parts from settings, and models with stored weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bench_core.computing.fingerprint import fingerprint
from bench_core.computing.part_class import part_class
from bench_core.computing.process_state import unchanged_state
from bench_core.computing.result_checks import diverged
from bench_core.data import Kind, TaskInfo
from bench_core.errors import PluginError, StoreError
from bench_core.model import OwnVocabulary
from bench_core.registry import PartKind, configured, part

if TYPE_CHECKING:
    import torch

    from bench_core.storage.artifact import Artifact

WEIGHTS = "weights.safetensors"
DIGESTS = "digests.json"  #: file with digests, by name, of the weights that a model reads from its own files
MAX_NAMES = 3  #: names of weights in a message


def built(kind: PartKind, settings: Mapping[str, Any], *more: Any) -> Any:
    """Build a part from its settings as JSON data; raise PluginError if its class contradicts its Config."""
    config = configured(kind, settings)
    with unchanged_state():
        build = part_class(config)
    with unchanged_state():
        return build(config, *more)


def built_on_meta(settings: Mapping[str, Any], info: TaskInfo) -> Any:
    """Build a model on the meta device; its module is imported before, so that tensors of the module have values."""
    import torch

    with unchanged_state():
        part_class(configured("model", settings))
    with torch.device("meta"):
        return built("model", settings, info)


def store_weights(model: Any, folder: Path) -> None:
    """Save the weights of a model; for weights that it reads from its own files, save only digests."""
    from safetensors.torch import save_file, save_model

    begins = _in_files(model)
    if not begins:
        save_model(unshared(model), str(folder / WEIGHTS))
        return
    rest = {name: tensor.contiguous() for name, tensor in model.state_dict().items() if not name.startswith(begins)}
    save_file(rest, str(folder / WEIGHTS))
    (folder / DIGESTS).write_text(json.dumps(_digests(model, begins)), encoding="utf-8")


def unshared(model: Any) -> Any:
    """Return a proxy of a model, for safetensors, in which weights do not share storage.

    cuDNN's recurrent layers share storage between weights. Tied weights remain tied.
    """

    def state_dict() -> dict[str, Any]:
        copies, weights = dict[tuple[Any, ...], Any](), model.state_dict()
        for name, tensor in weights.items():
            if tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes():
                weights[name] = copies.setdefault((tensor.data_ptr(), tensor.shape, tensor.stride()), tensor.clone())
        return dict(weights)

    return SimpleNamespace(state_dict=state_dict, load_state_dict=model.load_state_dict)


def load_stored_weights(model: Any, artifact: Artifact) -> None:
    """Load the weights of a stored model, including weights that it reads from its own files.

    Raises StoreError if the stored file does not match the model, and PluginError if the weights from its own files
    have changed.
    """
    begins, path = _in_files(model), artifact.file(WEIGHTS)
    if not begins:
        load_weights(model, path)
        return
    _load(model, path, begins)
    model.read_weights()
    stored, current = artifact.json(DIGESTS), _digests(model, begins)
    if wrong := [name for name in {**stored, **current} if stored.get(name) != current.get(name)]:
        raise PluginError(
            f"{type(model).__name__}.read_weights returned different weights from the same files: "
            f"{', '.join(wrong[:MAX_NAMES])}. Make it depend only on its files."
        )


def load_weights(model: Any, path: Path) -> None:
    """Load stored weights into a model; raise StoreError unless the file contains exactly its weights, all finite."""
    _load(model, path)
    if wrong := diverged(model):
        raise StoreError(f"{path}: {wrong}; weights must be finite. Use other weights or train again.")


def _in_files(model: Any) -> tuple[str, ...]:
    """Return the name prefixes of weights that a model reads from its own files."""
    return model.weights_in_files if isinstance(model, OwnVocabulary) else ()


def _digests(model: Any, begins: tuple[str, ...]) -> dict[str, str]:
    """Return the digests of the weights with these name prefixes; a tensor with several names appears once."""
    state, digests = model.state_dict(), fingerprint(model).weights
    return {name: digest for name, digest in digests.items() if name in state and name.startswith(begins)}


def _load(model: Any, path: Path, left_out: tuple[str, ...] = ()) -> None:
    """Load the weights in a file; raise StoreError unless it has exactly the weights not prefixed by `left_out`."""
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    try:
        missing, more = load_model(unshared(model), str(path), strict=not left_out)
        if lost := [*more, *(name for name in missing if not name.startswith(left_out))]:
            raise LookupError(f"missing or unexpected: {', '.join(lost[:MAX_NAMES])}")
    except (SafetensorError, RuntimeError, LookupError, OSError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{path} does not contain the weights of this model: {reason}") from None


def likelihood_kind(model: Mapping[str, Any], by: str) -> Kind:
    """Return the kind of a model's likelihood `by`: exact, bound or estimate."""
    return part("model", model["name"]).config.likelihoods[by]  # type: ignore[attr-defined,no-any-return]


def device_of(settings: Mapping[str, Any]) -> torch.device:
    """Return the device named by settings, and set torch's number of threads.

    Raises PluginError if the device is missing or OMP_THREAD_LIMIT is too low.
    """
    import torch

    limit, threads = os.environ.get("OMP_THREAD_LIMIT", ""), settings["threads"]
    if limit.isdigit() and int(limit) < threads:
        raise PluginError(
            f"OMP_THREAD_LIMIT is {limit}, but the suite requires {threads} threads, so torch would compute wrong "
            f"numbers. Unset it, or set `hardware: {{threads: {limit}}}`."
        )
    torch.set_num_threads(threads)
    if settings["device"] == "cuda" and not torch.cuda.is_available():
        raise PluginError(
            "torch finds no CUDA device on this machine. Set `hardware: {device: cpu}`, or run `bench doctor`."
        )
    return torch.device(settings["device"])
