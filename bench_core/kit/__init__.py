"""Base classes with a single method to implement; names are imported on first use.

| to implement | base class | and its Config |
|---|---|---|
| `forward` | `LanguageModel` | `LanguageModelConfig` |
| `encode`, `forward` | `EncoderDecoder` | `EncoderDecoderConfig` |
| `log_probs` of an output layer | `Head` | |
| `score` of an example | | `ExampleMetricConfig` |
| `choose` of a decoding step | | `StepDecoderConfig` |

`Cache`, `SourceStates` and `BatchFirstRNN` handle model states; `pack` and `unpack` remove and restore padding.
"""

# mypy: implicit-reexport
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_core.kit.cache import Cache
    from bench_core.kit.configs import EncoderDecoderConfig, ExampleMetricConfig, LanguageModelConfig
    from bench_core.kit.configs import StepDecoderConfig, name_by_convention
    from bench_core.kit.encoder_decoder import EncoderDecoder, SourceStates
    from bench_core.kit.head import Head, Softmax
    from bench_core.kit.language_model import LanguageModel, LanguageModelState
    from bench_core.kit.recurrent import BatchFirstRNN, pack, unpack

_HOMES = {
    "cache": ["Cache"],
    "configs": [
        "EncoderDecoderConfig", "ExampleMetricConfig", "LanguageModelConfig", "StepDecoderConfig",
        "name_by_convention",
    ],
    "encoder_decoder": ["EncoderDecoder", "SourceStates"],
    "head": ["Head", "Softmax"],
    "language_model": ["LanguageModel", "LanguageModelState"],
    "recurrent": ["BatchFirstRNN", "pack", "unpack"],
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
