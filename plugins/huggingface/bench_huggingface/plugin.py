"""The parts that this plugin provides, as Configs and hooks; imports neither torch nor transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from bench_core import Kind, ModelConfig, Scorer, Source, Stepper, hookimpl
from bench_huggingface import folder


class CausalLMConfig(ModelConfig):
    """Causal language model of transformers, with the weights in a folder or with new ones of an architecture."""

    name, target = "hf-causal-lm", "bench_huggingface.lm:CausalLM"
    capabilities, sources = {Stepper, Scorer}, {Source.NONE}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["wolf2020", "architecture.model_type=gpt2: radford2019"]

    path: str | None = Field(None, min_length=1)  #: a folder of `save_pretrained`, in the data directory or absolute
    architecture: dict[str, Any] | None = None  #: `model_type`, and what its configuration takes; weights are drawn
    bos: bool = True  #: whether it reads its own first token where an opening begins with stop; without, none

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.path is None) == (self.architecture is None):
            raise ValueError("give either `path`, a folder with weights, or `architecture`, whose weights are drawn")
        if self.architecture is not None and not isinstance(self.architecture.get("model_type"), str):
            raise ValueError(
                "`architecture` needs a `model_type`, such as {model_type: gpt2, n_layer: 4, n_embd: 256}"
            )
        return self

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return configuration, tokenizer and weights of `path`."""
        return {} if self.path is None else folder.files(data / self.path)


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the models of transformers."""
    return [CausalLMConfig]
