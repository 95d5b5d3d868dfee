"""Builds a network of transformers from settings and local files; nothing is fetched, no remote code runs."""

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
from bench_huggingface.checkpoint import KINDS, Family
from bench_huggingface.folder import WEIGHTS

T = TypeVar("T")
SPECIAL = {"bos_token_id": STOP, "eos_token_id": STOP, "pad_token_id": None}  # as a task numbers them
POSITIONS = ("max_position_embeddings", "max_seq_len")
CACHES = ("past_key_values", "cache_params", "state")  # names of the argument
NETWORKS = {"causal": MODEL_FOR_CAUSAL_LM_MAPPING, "seq2seq": MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING}


def described(architecture: Mapping[str, Any], tokens: int) -> PreTrainedConfig:
    """Return the configuration of an architecture over so many tokens; raise SuiteError for what it does not know."""
    settings = dict(architecture)
    name = settings.pop("model_type")
    types = list(MODEL_FOR_CAUSAL_LM_MAPPING._model_mapping)
    if name not in types:
        raise SuiteError(f"transformers has no causal language model of type {name!r}.{_near(name, types)}")
    kind = CONFIG_MAPPING[name]
    known = {field.name for field in fields(kind)} - {field.name for field in fields(PreTrainedConfig)}
    if "vocab_size" not in known:
        raise SuiteError(f"{name!r} reads more than text. Name its language model.{_near(f'{name}_text', types)}")
    for key in settings:
        if key in ("vocab_size", *SPECIAL):
            raise SuiteError(f"`architecture` sets {key!r}, which the task decides. Leave it out.")
        if key not in known and key not in kind.attribute_map:
            raise SuiteError(f"the architecture {name!r} has no setting {key!r}.{_near(key, known)}")
    of_task = {"vocab_size": tokens, **{key: token for key, token in SPECIAL.items() if key in known}}
    return tried(f"the architecture {name!r}", lambda: kind(**settings, **of_task))


def stored(folder: Path, family: Family = "causal") -> PreTrainedConfig:
    """Return the configuration in a folder; raise SuiteError if it is of a kind that cannot be had."""
    config = tried(
        f"the model in {folder}",
        lambda: AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False),
    )
    if type(config) not in NETWORKS[family]:
        raise SuiteError(f"the model in {folder} is of type {config.model_type!r}, no {KINDS[family]}.")
    if getattr(config, "quantization_config", None) is not None:
        raise SuiteError(f"the model in {folder} has quantized weights, which are not read. Choose the full ones.")
    return config


def allocated(
    config: PreTrainedConfig, drawn: bool, family: Family = "causal", dtype: torch.dtype | None = None
) -> nn.Module:
    """Return a network whose weights are drawn, or have yet to be loaded; raise SuiteError where it cannot be.

    Without `dtype` they are of the type that torch is set to.
    """
    kind = NETWORKS[family][type(config)]
    if cache_name(kind) is None:
        raise SuiteError(
            f"{kind.__name__} ({config.model_type!r}) does not go on from a cache of what it has read. "
            "Choose another architecture, such as gpt2 or llama."
        )
    config.dtype, config.return_dict = dtype, True
    if hasattr(config, "rescale_every"):
        config.rescale_every = 0  # else RWKV changes its weights when it first evaluates
    with nullcontext() if drawn else no_init_weights():
        network: Any = tried(
            f"the architecture {config.model_type!r}", lambda: kind._from_config(config, dtype=dtype)
        )
    network.tie_weights()
    network.base_model.warn_if_padding_and_no_attention_mask = lambda *ids: None  # causal attention is blind there
    if family == "causal":
        _attend_to_buffers(network)
    if dtype == torch.float64:
        network.set_experts_implementation("eager")  # torch's grouped products know no float64
    _take_one_operation(network)
    built: nn.Module = network
    return built


def _attend_to_buffers(network: Any) -> None:
    """Give networks with plain keys and values, and with an attention that can be chosen, that of `attention`."""
    plain = {type(layer) for layer in DynamicCache(config=network.config).layers} == {DynamicLayer}
    if plain and network.config._attn_implementation == "sdpa" and network._can_set_attn_implementation():
        network.set_attn_implementation(attention.NAME)


def _take_one_operation(network: nn.Module) -> None:
    """Let torch's own function compute the tanh form of GELU, for which GPT-2 takes eight operations one by one."""
    for module in [*network.modules()]:
        for name, child in module.named_children():
            if type(child) is NewGELUActivation:
                setattr(module, name, nn.GELU(approximate="tanh"))


def cache_name(kind: type[nn.Module]) -> str | None:
    """Return what a class of networks calls the cache that it goes on from; None if it has none."""
    arguments = inspect.signature(kind.forward).parameters
    return next((name for name in CACHES if name in arguments), None)


def positions(config: PreTrainedConfig) -> tuple[int, str] | None:
    """Return the most tokens that can be read, and what the architecture calls that setting; None if any number."""
    text = config.get_text_config()
    found = [(getattr(text, name), text.attribute_map.get(name, name)) for name in POSITIONS if hasattr(text, name)]
    return found[0] if found else None


def load(network: nn.Module, folder: Path) -> None:
    """Fill a network with the weights in a folder; raise DataError unless all are there."""
    kind: Any = type(network)
    dtype = next(network.parameters()).dtype
    try:
        with _quiet():
            found, report = kind.from_pretrained(
                folder, dtype=dtype, local_files_only=True, use_safetensors=True, output_loading_info=True
            )
    except Exception as error:  # whatever is wrong with a file
        raise DataError(f"the weights in {folder} cannot be loaded: {_line(error)}") from None
    missing = sorted(report["missing_keys"])
    if missing:
        names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise DataError(f"the files in {folder} lack weights of {kind.__name__}: {names}. Fetch them anew.")
    network.load_state_dict(found.state_dict())
    wrong = diverged(network)
    if wrong:
        place = folder / WEIGHTS if (folder / WEIGHTS).is_file() else folder
        raise DataError(f"{place}: {wrong}. Fetch it anew.")


def tried(what: str, build: Callable[[], T]) -> T:
    """Return what `build` gives; raise SuiteError in one line where transformers refuses."""
    try:
        return build()
    except BenchError:
        raise
    except Exception as error:  # it has many ways to do so
        raise SuiteError(f"{what} cannot be built: {_line(error)}") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=3)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Let transformers show no progress for a while."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
