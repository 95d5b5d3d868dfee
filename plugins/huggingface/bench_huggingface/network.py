"""Builds transformers networks from settings and local files, without downloads or remote code."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    AutoConfig,
    DynamicCache,
    PreTrainedConfig,
)
from transformers.activations import NewGELUActivation
from transformers.cache_utils import DynamicLayer
from transformers.initialization import no_init_weights
from transformers.utils import logging

from bench_core import STOP, BenchError, DataError, SuiteError, diverged
from bench_huggingface import attention
from bench_huggingface.checkpoint import KINDS, Family, one_line
from bench_huggingface.folder import WEIGHTS

T = TypeVar("T")
SPECIAL = {"bos_token_id": STOP, "eos_token_id": STOP, "pad_token_id": None}  # token ids of a task
POSITIONS = ("max_position_embeddings", "max_seq_len")
CACHES = ("past_key_values", "cache_params", "state")  # argument names
NETWORKS = {"causal": MODEL_FOR_CAUSAL_LM_MAPPING, "seq2seq": MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING}


def build_config(architecture: Mapping[str, Any], tokens: int) -> PreTrainedConfig:
    """Build the configuration of an architecture for a vocabulary size; raise SuiteError for unknown settings."""
    settings = dict(architecture)
    name = settings.pop("model_type")
    types = list(MODEL_FOR_CAUSAL_LM_MAPPING._model_mapping)
    if name not in types:
        raise SuiteError(f"transformers has no causal language model of type {name!r}.{near(name, types)}")
    kind = CONFIG_MAPPING[name]
    known = {field.name for field in fields(kind)} - {field.name for field in fields(PreTrainedConfig)}
    if "vocab_size" not in known:
        raise SuiteError(f"{name!r} is not a text-only model. Use its language model.{near(f'{name}_text', types)}")
    for key in settings:
        if key in ("vocab_size", *SPECIAL):
            raise SuiteError(f"`architecture` sets {key!r}, which is determined by the task. Remove it.")
        if key not in known and key not in kind.attribute_map:
            raise SuiteError(f"the architecture {name!r} has no setting {key!r}.{near(key, known)}")
    of_task = {"vocab_size": tokens, **{key: token for key, token in SPECIAL.items() if key in known}}
    return refuse_errors(f"the architecture {name!r}", lambda: kind(**settings, **of_task))


def load_config(folder: Path, family: Family = "causal") -> PreTrainedConfig:
    """Load the configuration in a folder; raise SuiteError if it is unsupported."""
    only = {"local_files_only": True, "trust_remote_code": False}
    config = refuse_errors(f"the model in {folder}", lambda: AutoConfig.from_pretrained(folder, **only))
    if type(config) not in NETWORKS[family]:
        raise SuiteError(f"the model in {folder} is of type {config.model_type!r}, which is not {KINDS[family]}.")
    if getattr(config, "quantization_config", None) is not None:
        raise SuiteError(
            f"the model in {folder} has quantized weights, which are not supported. Use the full weights."
        )
    return config


def build(
    config: PreTrainedConfig, initialize: bool, family: Family = "causal", dtype: torch.dtype | None = None
) -> nn.Module:
    """Build a network with random weights, or with weights to be loaded later; raise SuiteError if that fails.

    The default of `dtype` is torch's default dtype.
    """
    kind = NETWORKS[family][type(config)]
    if cache_name(kind) is None:
        raise SuiteError(
            f"{kind.__name__} ({config.model_type!r}) does not support a cache for incremental decoding. "
            "Choose another architecture, such as gpt2 or llama."
        )
    config.dtype, config.return_dict = dtype, True
    if hasattr(config, "rescale_every"):
        config.rescale_every = 0  # otherwise RWKV changes its weights at its first evaluation
    with nullcontext() if initialize else no_init_weights():
        what = f"the architecture {config.model_type!r}"
        network: Any = refuse_errors(what, lambda: kind._from_config(config, dtype=dtype))
    network.tie_weights()
    network.base_model.warn_if_padding_and_no_attention_mask = lambda *ids: None  # causal attention ignores it
    if family == "causal":
        _attend_to_buffers(network)
    if dtype == torch.float64:
        network.set_experts_implementation("eager")  # torch's grouped products do not support float64
    _fuse_gelu(network)
    built: nn.Module = network
    return built


def _attend_to_buffers(network: Any) -> None:
    """Use `attention` in networks that have plain keys and values, and configurable attention."""
    plain = {type(layer) for layer in DynamicCache(config=network.config).layers} == {DynamicLayer}
    if plain and network.config._attn_implementation == "sdpa" and network._can_set_attn_implementation():
        network.set_attn_implementation(attention.NAME)


def _fuse_gelu(network: nn.Module) -> None:
    """Compute the tanh form of GELU with a single torch operation instead of GPT-2's eight operations."""
    for module in [*network.modules()]:
        for name, child in module.named_children():
            if type(child) is NewGELUActivation:
                setattr(module, name, nn.GELU(approximate="tanh"))


def cache_name(kind: type[nn.Module]) -> str | None:
    """Return the name of a network class's cache argument; None if there is no cache."""
    arguments = inspect.signature(kind.forward).parameters
    return next((name for name in CACHES if name in arguments), None)


def positions(config: PreTrainedConfig) -> tuple[int, str] | None:
    """Return the maximum number of input tokens and the setting that defines it; None if unlimited."""
    text = config.get_text_config()
    limits = [(getattr(text, name), text.attribute_map.get(name, name)) for name in POSITIONS if hasattr(text, name)]
    return limits[0] if limits else None


def load(network: nn.Module, folder: Path) -> None:
    """Load the weights in a folder into a network; raise DataError if weights are missing or invalid."""
    kind: Any = type(network)
    dtype = next(network.parameters()).dtype
    try:
        with _quiet():
            loaded, report = kind.from_pretrained(
                folder, dtype=dtype, local_files_only=True, use_safetensors=True, output_loading_info=True
            )
    except Exception as error:  # a damaged file may raise anything
        raise DataError(f"the weights in {folder} cannot be loaded: {one_line(error)}") from None
    missing = sorted(report["missing_keys"])
    if missing:
        names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise DataError(f"the files in {folder} lack weights of {kind.__name__}: {names}. Download them again.")
    network.load_state_dict(loaded.state_dict())
    if wrong := diverged(network):
        place = folder / WEIGHTS if (folder / WEIGHTS).is_file() else folder
        raise DataError(f"{place}: {wrong}. Download it again.")


def refuse_errors(what: str, make: Callable[[], T]) -> T:
    """Return the result of `make`; convert errors of transformers to a one-line SuiteError."""
    try:
        return make()
    except BenchError:
        raise
    except Exception as error:  # transformers may raise anything
        raise SuiteError(f"{what} cannot be built: {one_line(error)}") from None


def near(name: str, names: Iterable[str]) -> str:
    """Return the end of a message that suggests names similar to an unknown name, or an empty string."""
    similar = get_close_matches(name, names, n=3)
    return f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Disable progress bars of transformers inside the block."""
    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()
